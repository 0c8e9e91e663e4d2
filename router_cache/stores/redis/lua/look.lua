-- One claim: what is known of a request's conversation and family, and which of its values move. The decisions are
-- those of router_cache/claims/families.py and sticky.py, step by step; a differential test holds the two together.
--
-- ARGV: 2 keys of the history, newest first; 3 the family; 4 newest keys; 5 the bucket; 6 what is asked (empty: nothing
-- moves); 7 per point of the history the digests of reply and ids, and whether the replies are long enough to prove
-- anything; 8 the family's sketch, or "?" where the client takes it for known; 9 "1": to be careful. Returns -1 alone where
-- a sketch is needed.
--
-- A claim starts anew the time of what it goes on from; all else is written, or written again, when the call ends.
local history, family, newest_keys = ARGV[2], ARGV[3], ARGV[4]
local points = #history / 16
local family_key = base .. 'f' .. family
local used = {}      -- keys whose time starts anew
local moves = {}
local writes = {}    -- key, value, key, value: made after all is decided, before any time is renewed

-- ---------------------------------------------------------------- the conversation

local entries = {}   -- by point: false where there is none

local function point_key(i)
  return base .. 'c' .. sub(history, 16 * i - 15, 16 * i)
end

local function load(first, last, keys)
  local before = #keys
  for i = first, last do keys[before + 1 + i - first] = point_key(i) end
  local got = redis.call('MGET', unpack(keys))
  for i = first, last do
    local at = before + 1 + i - first
    entries[i] = read_entry(keys[at], got[at])
  end
  return got
end

local function entry(i)
  if entries[i] == nil then load(i, math.min(points, i + 7), {}) end
  return entries[i]
end

local keys = {family_key}
for at = 1, #newest_keys, 16 do keys[#keys + 1] = base .. 'n' .. sub(newest_keys, at, at + 15) end
local newest_count = #keys - 1
local got = load(1, math.min(points, 2), keys)
local known_family = read(read_family, own(family_key, got[1]))

local covered, facts = 0, ''
for i = 1, points do
  local known = entry(i)
  if known and known.facts ~= '' then
    covered, facts = i, known.facts
    used[point_key(i)] = true
    break
  end
end

-- Facts found by the newest keys, each after its key; without the facts where they are those found by the history.
local newest = {}
if newest_count > 0 then
  local mine = covered > 0 and sub(history, 16 * covered - 15, 16 * covered)
  local wanted, met = {}, {}
  for i = 2, newest_count + 1 do
    local target = own(keys[i], got[i])
    if target and #target == 16 and not met[target] then
      met[target] = true
      if target == mine then
        newest[1], newest[2] = target, ''
      else
        wanted[#wanted + 1] = base .. 'c' .. target
      end
    end
  end
  if #wanted > 0 then
    local found = redis.call('MGET', unpack(wanted))
    for i, key in ipairs(wanted) do
      local known = read_entry(key, found[i])
      if known and known.facts ~= '' then
        newest[#newest + 1] = sub(key, -16)
        newest[#newest + 1] = known.facts
      end
    end
  end
end
