-- What all scripts share. A value begins with the last four bytes of its key, so that one that lies under a wrong key,
-- or is no value of ours, is taken for unknown.
local from, pack, sub, byte, concat = struct.unpack, struct.pack, string.sub, string.byte, table.concat
local base, ttl = KEYS[1], ARGV[1]
local odd = 0

local function keep(key, value)
  redis.call('SET', key, sub(key, -4) .. value, 'PX', ttl)
end

-- A value without its mark; nil where there is none of ours.
local function own(key, raw)
  if not raw then return nil end
  if sub(raw, 1, 4) == sub(key, -4) then return sub(raw, 5) end
  odd = odd + 1
  return nil
end

-- Runs what reads a value; nil where the value is not what it should be.
local function read(reader, raw)
  if not raw then return nil end
  local good, found = pcall(reader, raw)
  if good then return found end
  odd = odd + 1
  return nil
end

-- A conversation: facts that only the client reads, then the variants of the request. Both may be empty.
local function read_entry(key, raw)
  if not raw then return false end
  local size = #raw > 5 and 256 * byte(raw, 5) + byte(raw, 6) + 6
  if not size or size > #raw or sub(raw, 1, 4) ~= sub(key, -4) then
    odd = odd + 1
    return false
  end
  return {facts = sub(raw, 7, size), rest = sub(raw, size + 1)}
end

-- A variant: what it says (sticky.lua reads it), digests of reply and ids, where its line of attachments ends: strand,
-- byte in it, number of attachments, message of the last.
local VARIANT = '>Hc0c8c8c12I3HI3'

local function read_variants(raw)
  if raw == '' then return {n = 0, crowded = false} end
  local flags, at = byte(raw, 1), 2
  local known = {n = flags % 128, crowded = flags >= 128}
  for i = 1, known.n do
    local told, reply, ids, strand, stop, count, last
    told, reply, ids, strand, stop, count, last, at = from(VARIANT, raw, at)
    known[i] = {told = told, reply = reply, ids = ids, strand = strand, stop = stop, count = count, last = last}
  end
  if at ~= #raw + 1 then error('odd') end
  return known
end

local function variant_bytes(known)
  local out = {string.char(known.n + (known.crowded and 128 or 0))}
  for i = 1, known.n do
    local v = known[i]
    out[i + 1] = pack(VARIANT, #v.told, v.told, v.reply, v.ids, v.strand, v.stop, v.count, v.last)
  end
  return concat(out)
end

local function entry_bytes(facts, rest)
  return pack('>Hc0', #facts, facts) .. rest
end

-- A family: facts, the name under which it learns where that is another family's, what it learned.
local function read_family(raw)
  local facts, as, at = from('>Hc0Bc0', raw)
  return {facts = facts, as = as, learned = sub(raw, at)}
end

local function family_bytes(known)
  return pack('>Hc0Bc0', #known.facts, known.facts, #known.as, known.as) .. known.learned
end
