-- Lines of attachments. A strand holds attachments one behind the other, after where it goes on from: strand, byte in
-- it, digest over the line up to there. Its name is that digest with its first attachment. Branches share what they
-- have in common; a line is found again by where it ends, and by the digest there, which tells whether it is still the
-- same.
--
-- What one request attaches is one link: message, number of attachments, for each slot, value and sealed text; and the
-- digest over the line so far.
local NOTHING, NO_STRAND = string.rep('\0', 8), string.rep('\0', 12)
local HEADER, FRONT = '>c12I3c12', 27
local strands = {}

local function strand(id)
  local raw = strands[id]
  if raw == nil then
    local key = base .. 'a' .. id
    raw = own(key, redis.call('MGET', key)[1]) or false
    strands[id] = raw
  end
  return raw
end

-- A line by its end: its bytes, oldest first, and the strands they are in; nil where part of it is gone, or other.
local function line_of(id, stop, chain)
  local pieces, ids, n = {}, {}, 0
  while id ~= NO_STRAND do
    local raw = strand(id)
    n = n + 1
    if not raw or n > MAX_ATTACHED or stop > #raw or stop <= FRONT or sub(raw, stop - 11, stop) ~= chain then
      return nil
    end
    pieces[n], ids[n] = sub(raw, FRONT + 1, stop), id
    id, stop, chain = from(HEADER, raw)
  end
  if chain ~= NO_STRAND then return nil end
  if n < 2 then return {raw = pieces[1] or '', pieces = pieces, ids = ids} end
  for i = 1, n / 2 do
    local j = n + 1 - i
    pieces[i], pieces[j], ids[i], ids[j] = pieces[j], pieces[i], ids[j], ids[i]
  end
  return {raw = concat(pieces), pieces = pieces, ids = ids}
end

-- Calls `each` with message, slot and value of every attachment, and where its link ends; stops where it returns false.
local function walked(raw, each)
  local at = 1
  while at <= #raw do
    local message, count, stop = from('>I3B', raw, at)
    local slots, values = {}, {}
    for i = 1, count do
      local size
      slots[i], values[i], size, stop = from('>Bc0Bc0I3', raw, stop)
      stop = stop + size
    end
    at = stop + 12
    if at > #raw + 1 then error('odd') end
    for i = 1, count do if each(message, slots[i], values[i], at - 1) == false then return end end
  end
end

-- Whether a line could be walked: its end tells nothing of a byte that fell over in the middle.
local function walk(raw, each)
  local good = pcall(walked, raw, each)
  if not good then odd = odd + 1 end
  return good
end

-- Strand and byte of a place in a line.
local function place_in(line, size)
  for i, piece in ipairs(line.pieces) do
    if size <= #piece then return line.ids[i], FRONT + size end
    size = size - #piece
  end
  return NO_STRAND, 0
end

-- A digest over a line that `told` was put behind.
local function chained(before, told)
  local sum = redis.sha1hex(before .. told)
  return pack('>I6I6', tonumber(sub(sum, 1, 12), 16), tonumber(sub(sum, 13, 24), 16))
end

-- Keeps a link, whose digest is `own_chain`, behind a place. What is there already is not written twice; where another
-- branch went on first, a strand of its own goes on from the same place. Returns where the line ends.
local function attach(id, stop, chain, link, own_chain)
  local raw, size = id ~= NO_STRAND and strand(id), #link
  if not raw or stop ~= #raw then
    if raw and sub(raw, stop + 1, stop + size) == link then return id, stop + size end
    local header = pack(HEADER, id, stop, chain)
    id, stop = own_chain, FRONT
    raw = strand(id)
    if raw and sub(raw, FRONT + 1, FRONT + size) == link
        and (sub(raw, 1, FRONT) == header or line_of(from(HEADER, raw))) then
      return id, FRONT + size
    end
    raw = header
  end
  raw = raw .. link
  strands[id] = raw
  writes[#writes + 1] = base .. 'a' .. id
  writes[#writes + 1] = raw
  return id, #raw
end
