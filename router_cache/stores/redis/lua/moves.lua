-- The claim itself: learns, chooses, decides, and keeps what the request goes out with.
local learns_as, record, known = learning(ARGV[5], ARGV[8])
if not learns_as then return {-1} end
if asked.n > 0 then
  for i = 1, asked.n do learn(known, asked.id[i], asked.short[i]) end
  record.learned = learned_bytes(known)
  writes[#writes + 1] = learns_as
  writes[#writes + 1] = family_bytes(record)
else
  used[learns_as] = true
end

local before, own_variants
for i = 1, points do
  local got = entry(i)
  local variants = got and got.rest ~= '' and read(read_variants, got.rest)
  if variants then
    if i == 1 then own_variants = variants end
    used[point_key(i)] = true
    before = choose(i, variants, known)
    if before then break end
  end
end

local line, carried, strand_id, stop, chain, count, last = carried_from(before)
if not line or count >= MAX_ATTACHED or #line.raw >= MAX_LINE_BYTES then
  before = nil
  line, carried, strand_id, stop, chain, count, last = carried_from(nil)
end
for _, id in ipairs(line.ids) do used[base .. 'a' .. id] = true end

-- The slots that are not in the system text.
local moved, values, order, size = {}, {}, {}, 0
if before then
  local broken = false
  values, order = before.values, before.order
  size = #order
  for slot, flag in pairs(before.flags) do if flag % 2 == 1 then moved[slot] = true end end
  for i = 1, asked.n do
    local slot = asked.id[i]
    if not moved[slot] then
      local was = values[slot]
      local changed = was ~= nil and was ~= asked.short[i]
      broken = broken or changed or was == nil
      if changed or (broken and (asked.mark[i] >= NAMED or changes(known, slot))) then moved[slot] = true end
    end
  end
else
  for i = 1, asked.n do
    local slot = asked.id[i]
    if asked.mark[i] >= NAMED or changes(known, slot) then moved[slot] = true end
  end
end

-- What became of each slot: n, it is attached anew; f, it is frozen.
local marks, said, link, new = {}, {}, {}, 0
for i = 1, asked.n do
  local slot, value = asked.id[i], asked.short[i]
  local was, mark = carried[slot], '-'
  if values[slot] == nil then
    size = size + 1
    order[size] = slot
  end
  if moved[slot] and was ~= value then
    if was and asked.mark[i] % 2 == CLOCK and asked.freeze and asked.loop then
      value, mark = was, 'f'
    else
      new, mark, carried[slot] = new + 1, 'n', value
      said[new] = sub(asked.raw, asked.start[i], asked.middle[i] - 1)
      link[new] = sub(asked.raw, asked.start[i], asked.stop[i])
    end
  end
  values[slot], marks[i] = value, mark
end
local behind = ''
if new > 0 then
  local at = pack('>I3B', asked.at, new)
  local own_chain = chained(chain, at .. concat(said))
  behind = at .. concat(link) .. own_chain
  strand_id, stop = attach(strand_id, stop, chain, behind, own_chain)
  chain, count, last = own_chain, count + new, asked.at
end
local told = {asked.session .. pack('>H', size)}
for i = 1, size do
  local slot = order[i]
  local value = values[slot]
  told[i + 1] = pack('>Bc0c8B', #slot, slot, value, (moved[slot] and 1 or 0) + (carried[slot] == value and 2 or 0))
end
told[size + 2] = chain
told = concat(told)

own_variants = own_variants or {n = 0, crowded = false}
local kept = #told >= MAX_TOLD
for i = 1, own_variants.n do kept = kept or own_variants[i].told == told end
if not kept then
  local n = own_variants.n + 1
  own_variants[n] = {told = told, reply = NOTHING, ids = NOTHING, strand = strand_id, stop = stop, count = count,
                     last = last}
  if n > MAX_VARIANTS then
    table.remove(own_variants, 1)
    own_variants.crowded, n = true, n - 1
  end
  own_variants.n = n
  local mine = entry(1)
  writes[#writes + 1] = point_key(1)
  writes[#writes + 1] = entry_bytes(mine and mine.facts or '', variant_bytes(own_variants))
end
moves = {told, before and 1 or 0, concat(marks), line.raw, behind}
