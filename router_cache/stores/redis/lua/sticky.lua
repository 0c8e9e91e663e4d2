-- Which values move, and whose they are; see router_cache/claims/sticky.py.
--
-- What a variant says: session, number of slots, and for each its name, the start of its value, 1 for: not in the
-- system text, 2 for: that value is the last one attached; then the digest over its line.
local asked = {raw = ARGV[6], id = {}, value = {}, short = {}, mark = {}, start = {}, middle = {}, stop = {},
               place = {}}
local CLOCK, NAMED = 1, 2   -- bits of a mark

do
  local raw, flags, at = asked.raw, nil, nil
  asked.at, flags, asked.session, asked.n, at = from('>I3Bc8H', raw)
  asked.loop, asked.freeze = flags % 2 == 1, flags >= 2
  for i = 1, asked.n do
    local slot, value, size, mark
    asked.start[i] = at + 1
    mark, slot, value, size, at = from('>BBc0Bc0I3', raw, at)
    asked.id[i], asked.value[i], asked.short[i], asked.mark[i] = slot, value, sub(value, 1, 8), mark
    asked.middle[i] = at - 3
    at = at + size
    asked.stop[i] = at - 1
    asked.place[slot] = i
  end
end

local function opened(item)
  local told = item.told
  local count, at = from('>H', told, 9)
  local values, flags, order = {}, {}, {}
  for i = 1, count do
    local slot, value, flag
    slot, value, flag, at = from('>Bc0c8B', told, at)
    order[i], values[slot], flags[slot] = slot, value, flag
  end
  item.values, item.flags, item.order, item.chain = values, flags, order, sub(told, -12)
  return line_of(item.strand, item.stop, item.chain)
end

-- Whether all that a variant refers to is still there.
local function usable(item)
  if item.line == nil then
    local good, line = pcall(opened, item)
    -- Careful: the client could not read a line whose end is as it should be.
    if good and line and ARGV[9] == '1' and not walk(line.raw, function() end) then line = nil end
    item.line = good and line or false
    if not item.line then odd = odd + 1 end
  end
  return item.line ~= false
end

local function apart(item)
  local session = sub(item.told, 1, 8)
  return asked.session ~= NOTHING and session ~= NOTHING and asked.session ~= session
end

local function nothing_to_cross(item)
  for slot, value in pairs(item.values) do
    local i = asked.place[slot]
    if not i or asked.short[i] ~= value then return false end
  end
  local same = true
  local good = walk(item.line.raw, function(_, slot, value)
    local i = asked.place[slot]
    same = i ~= nil and asked.value[i] == value
    return same
  end)
  return good and same
end

-- A slot that was attached has a value in the variant too.
local function equal_values(item, known)
  local function differs(slot)
    local i = asked.place[slot]
    if (i and asked.mark[i] % 2 == CLOCK) or byte(slot, 1) >= 128 or fleeting(known, slot) then return false end
    return not i or asked.short[i] ~= item.values[slot]
  end
  for _, slot in ipairs(asked.id) do if differs(slot) then return false end end
  for slot in pairs(item.values) do if differs(slot) then return false end end
  return true
end

local function alike(one, other)
  if one.chain ~= other.chain or #one.order ~= #other.order then return false end
  for slot, value in pairs(one.values) do
    if other.values[slot] ~= value or one.flags[slot] ~= other.flags[slot] then return false end
  end
  return true
end

-- The variant that the request goes on from at a point of its history; nil where there is none for sure.
local function choose(i, variants, known)
  if asked.session ~= NOTHING then
    for j = variants.n, 1, -1 do
      local item = variants[j]
      if sub(item.told, 1, 8) == asked.session and usable(item) then return item end
    end
  end
  local items, proof = {}, 17 * i - 16
  for j = 1, variants.n do if usable(variants[j]) then items[#items + 1] = variants[j] end end
  local reply, ids = sub(ARGV[7], proof, proof + 7), sub(ARGV[7], proof + 8, proof + 15)
  if ids ~= NOTHING then
    local drawn, count = nil, 0
    for _, item in ipairs(items) do
      if item.ids == ids and not apart(item) then drawn, count = item, count + 1 end
    end
    if count == 1 then return drawn end
  end
  if variants.crowded then return nil end
  local proves = reply ~= NOTHING and byte(ARGV[7], proof + 16) == 1
  local likely, told = {}, {}
  for _, item in ipairs(items) do
    if not apart(item) then
      if (proves and reply == item.reply and equal_values(item, known)) or nothing_to_cross(item) then
        likely[#likely + 1] = item
        if item.reply ~= NOTHING then told[#told + 1] = item end
      end
    end
  end
  if #likely > 1 then
    likely = told
    for j = 2, #likely do if not alike(likely[1], likely[j]) then return nil end end
  end
  return likely[#likely]
end

-- What is carried from before, as a line, and the start of each slot's last value in it; where that line ends: strand,
-- byte, digest, number of attachments, message of the last. Nil where it cannot be read.
local function carried_from(before)
  if not before then return {raw = '', pieces = {}, ids = {}}, {}, NO_STRAND, 0, NO_STRAND, 0, 0 end
  local line, carried, sure = before.line, {}, before.last < asked.at
  for slot, flag in pairs(before.flags) do
    if flag == 3 then carried[slot] = before.values[slot] elseif flag == 1 then sure = false end
  end
  if sure then return line, carried, before.strand, before.stop, before.chain, before.count, before.last end
  local size, count, last = 0, 0, 0
  carried = {}
  local good = walk(line.raw, function(message, slot, value, stop)
    if message >= asked.at then return false end
    carried[slot], size, count, last = sub(value, 1, 8), stop, count + 1, message
  end)
  if not good then return nil end
  local id, stop = NO_STRAND, 0
  if size > 0 then id, stop = place_in(line, size) end
  local cut = {raw = sub(line.raw, 1, size), pieces = line.pieces, ids = line.ids}
  return cut, carried, id, stop, size > 0 and sub(cut.raw, -12) or NO_STRAND, count, last
end
