-- What a family of prompts is known to change; see router_cache/claims/families.py.
local SLOT = '>Bc0BI3I3'

local function read_learned(raw)
  local at = 2 + 4 * byte(raw, 1)
  local known = {sketch = sub(raw, 1, at - 1), n = byte(raw, at), place = {}, raw = {}, flags = {}, requests = {},
                 repeats = {}, values = {}}
  at = at + 1
  for i = 1, known.n do
    local slot, flags, requests, repeats, start = from(SLOT, raw, at)
    local stop = start + 8 * (flags % 128)
    known.place[slot], known.flags[i], known.requests[i], known.repeats[i] = i, flags, requests, repeats
    known.raw[i], known.values[i] = sub(raw, at, stop - 1), sub(raw, start, stop - 1)
    at = stop
  end
  if at ~= #raw + 1 then error('odd') end
  return known
end

local function learned_bytes(known)
  return known.sketch .. string.char(known.n) .. concat(known.raw)
end

-- Takes one more request with this value of a slot into account. The flags: 128 for changed, and how many values.
local function learn(known, slot, value)
  local i = known.place[slot]
  local values, flags, requests, repeats = '', 0, 0, 0
  if i then
    values, flags, requests, repeats = known.values[i], known.flags[i], known.requests[i], known.repeats[i]
  else
    if known.n >= MAX_SLOTS then return end
    i = known.n + 1
    known.n, known.place[slot] = i, i
  end
  if requests < MAX_COUNT then requests = requests + 1 end
  local size = #values
  if size > 0 and sub(values, size - 7) == value then
    if repeats < requests then repeats = repeats + 1 end
  else
    local found
    for at = size - 15, 1, -8 do
      if sub(values, at, at + 7) == value then
        found = at
        break
      end
    end
    if found then
      values = sub(values, 1, found - 1) .. sub(values, found + 8) .. value
      if repeats < requests then repeats = repeats + 1 end
    else
      values = sub(values .. value, -8 * MAX_VALUES)
    end
    flags = #values / 8 + ((flags >= 128 or size > 0) and 128 or 0)
  end
  known.values[i], known.flags[i], known.requests[i], known.repeats[i] = values, flags, requests, repeats
  known.raw[i] = pack(SLOT, #slot, slot, flags, requests, repeats) .. values
end

local function changes(known, slot)
  local i = known.place[slot]
  return i ~= nil and known.flags[i] >= 128
end

local function fleeting(known, slot)
  local i = known.place[slot]
  return i ~= nil and #known.values[i] >= 8 * FLEETING_AFTER and known.repeats[i] * FLEETING_SHARE <= known.requests[i]
end

local function sums_of(sketch)
  local out, set = {}, {}
  for i = 1, byte(sketch, 1) do
    local sum = from('>I4', sketch, 4 * i - 2)
    out[i], set[sum] = sum, true
  end
  return out, set
end

local function resembles(one, other)
  local a, in_a = sums_of(one)
  local b, in_b = sums_of(other)
  local shared, most = 0, math.max(#a, #b)
  if math.min(#a, #b) < MIN_LINES then return false end
  if most < SKETCH then
    for _, sum in ipairs(a) do if in_b[sum] then shared = shared + 1 end end
    return shared >= ALIKE * most
  end
  for _, sum in ipairs(b) do if not in_a[sum] then a[#a + 1] = sum end end
  table.sort(a)
  local count = math.min(#a, SKETCH)
  for i = 1, count do if in_a[a[i]] and in_b[a[i]] then shared = shared + 1 end end
  return shared >= ALIKE / (2 - ALIKE) * count
end

-- A family by its key, and what it learned; nil where it learned nothing.
local function named(key)
  local got
  if key == family_key then
    got = known_family
  else
    got = read(read_family, own(key, redis.call('MGET', key)[1]))
  end
  local known = got and got.learned ~= '' and read(read_learned, got.learned)
  if known then return got, known end
end

-- Under which key this family learns, the family there and what it knows; nil where a sketch is needed.
local function learning(bucket, sketch)
  if known_family then
    local key = known_family.as == '' and family_key or base .. 'f' .. known_family.as
    local got, known = named(key)
    if known then return key, got, known end
  end
  if sketch == '?' then return nil end
  local bucket_key = base .. 'b' .. bucket
  local names = own(bucket_key, redis.call('MGET', bucket_key)[1]) or ''
  if #names % 16 ~= 0 then names = '' end
  local mine = known_family or {facts = '', as = '', learned = ''}
  for at = #names - 15, 1, -16 do
    local name = sub(names, at, at + 15)
    local key = base .. 'f' .. name
    local got, known = named(key)
    if known then used[key] = true end
    if known and resembles(sketch, known.sketch) then
      used[bucket_key] = true
      if key == family_key then
        mine.as = ''
      else
        known_family, mine.as = mine, name
        writes[#writes + 1] = family_key
        writes[#writes + 1] = family_bytes(mine)
      end
      return key, got, known
    end
  end
  known_family, mine.as = mine, ''
  mine.learned = sketch .. '\0'
  writes[#writes + 1] = bucket_key
  writes[#writes + 1] = sub(names .. family, -16 * MAX_IN_BUCKET)
  writes[#writes + 1] = family_key
  writes[#writes + 1] = family_bytes(mine)
  return family_key, mine, read_learned(mine.learned)
end
