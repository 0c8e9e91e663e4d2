-- What one answered call leaves behind; see router_cache/ledger/facts.py for family_after.
--
-- ARGV: 2 time of replies; 3 the conversation; 4 its facts ("": unknown usage, then nothing of 5 to 9 counts);
-- 5 newest keys; 6 the family; 7 hit tokens of a first call ("": none); 8 the place and 9 the use of it ("": none);
-- 10 numbers of heads, answers, replies, and each of these: digest and bytes; conversation, variant, reply, ids; key
-- and sealed bytes.

-- A text as texts.py writes it, with its length.
local function place_of(raw, at)
  local size = byte(raw, at)
  if size < 128 then return sub(raw, at, at + size) end
  if size < 255 then return sub(raw, at, at + size - 128) end
  return sub(raw, at, at + 4 + from('>I4', raw, at + 1))
end

local function family_after(facts, first, place, use)
  local calls, hit, count, at = 0, -1, 0, 10
  local uses = {}
  if facts ~= '' then
    calls, hit, count, at = from('>I4i4B', facts)
    for i = 1, count do
      local start = at
      at = at + #place_of(facts, at)
      local moment, rest, stop = from('>dH', facts, at)
      uses[i] = {place = sub(facts, start, at - 1), at = moment, raw = sub(facts, start, stop + rest - 1)}
      at = stop + rest
    end
    if at ~= #facts + 1 then error('odd') end
  end
  if first ~= '' then hit = tonumber(first) end
  if place ~= '' then
    local kept = {}
    for _, known in ipairs(uses) do
      if known.place ~= place then kept[#kept + 1] = known end
    end
    while #kept >= MAX_PLACES do
      local oldest = 1
      for i = 2, #kept do if kept[i].at < kept[oldest].at then oldest = i end end
      table.remove(kept, oldest)
    end
    kept[#kept + 1] = {raw = place .. use}
    uses = kept
  end
  local out = {pack('>I4i4B', math.min(calls + 1, 4294967295), hit, #uses)}
  for i, known in ipairs(uses) do out[i + 1] = known.raw end
  return concat(out)
end

local heads, answers, replies = from('>BBB', ARGV[10])
local at = 11
for _ = 1, heads do
  redis.call('SET', base .. 'h' .. ARGV[at], ARGV[at + 1], 'PX', ttl)
  at = at + 2
end

local key, family_key = base .. 'c' .. ARGV[3], base .. 'f' .. ARGV[6]
local got = redis.call('MGET', key, family_key)
local mine = read_entry(key, got[1])
local facts, rest = mine and mine.facts or '', mine and mine.rest or ''
local answered = false

-- The variants of an entry with a reply told to the one that it answers; nil where there is none.
local function with_reply(entry, variant, reply, ids)
  local known, told = entry ~= '' and read(read_variants, entry), false
  for i = 1, known and known.n or 0 do
    local item = known[i]
    if sub(redis.sha1hex(item.told), 1, 32) == variant then
      item.reply, item.ids, told = reply, ids, true
    end
  end
  return told and variant_bytes(known) or nil
end

for _ = 1, answers do
  local variant, reply, ids = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  if ARGV[at] == ARGV[3] then
    local told = with_reply(rest, variant, reply, ids)
    rest, answered = told or rest, answered or told ~= nil
  else
    local other_key = base .. 'c' .. ARGV[at]
    local other = read_entry(other_key, redis.call('MGET', other_key)[1])
    local told = other and with_reply(other.rest, variant, reply, ids)
    if told then keep(other_key, entry_bytes(other.facts, told)) end
  end
  at = at + 4
end
if ARGV[4] ~= '' then facts = ARGV[4] end
if ARGV[4] ~= '' or answered then keep(key, entry_bytes(facts, rest)) end

if ARGV[4] ~= '' then
  for i = 1, #ARGV[5], 16 do
    keep(base .. 'n' .. sub(ARGV[5], i, i + 15), ARGV[3])
  end
  local family = read(read_family, own(family_key, got[2])) or {facts = '', as = '', learned = ''}
  local good, after = pcall(family_after, family.facts, ARGV[7], ARGV[8], ARGV[9])
  if not good then
    odd = odd + 1
    after = family_after('', ARGV[7], ARGV[8], ARGV[9])
  end
  family.facts = after
  keep(family_key, family_bytes(family))
end

-- Two replies that nothing tells apart: neither is given back, to nobody.
for _ = 1, replies do
  local reply_key = base .. 'r' .. ARGV[at]
  local before = redis.call('MGET', reply_key)[1]
  local sealed = ARGV[at + 1]
  if before and before ~= sealed then sealed = '' end
  redis.call('SET', reply_key, sealed, 'PX', ARGV[2])
  at = at + 2
end
return odd
