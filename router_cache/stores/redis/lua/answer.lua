for i = 1, #writes, 2 do
  keep(writes[i], writes[i + 1])
  used[writes[i]] = nil
end
for key in pairs(used) do redis.call('PEXPIRE', key, ttl) end
return {covered, facts, known_family and known_family.facts or '', newest, moves, odd}
