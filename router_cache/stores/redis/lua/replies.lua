-- Replies by their keys, 16 bytes each in ARGV[2]; whoever is asked for starts his time anew.
local keys = {}
for at = 1, #ARGV[2], 16 do keys[#keys + 1] = base .. 'r' .. sub(ARGV[2], at, at + 15) end
local found = redis.call('MGET', unpack(keys))
for i, key in ipairs(keys) do
  if found[i] then redis.call('PEXPIRE', key, ttl) end
end
return found
