-- The EWMA method of Kubernetes' ingress-nginx, written anew from its public description: of two random servers the one with
-- the smaller decayed mean of response times. A mean decays towards the newest sample, and towards zero while nobody looks,
-- with a time constant of 10 s. Requests in flight play no part.

local balancer = require "ngx.balancer"
local shared = ngx.shared.balancer

-- Seconds.
local DECAY = 10

local M = {}
local peers = {}

function M.init(list) peers = list end

local function decayed(i, sample, now)
    local mean, seen = shared:get("m" .. i) or 0, shared:get("s" .. i) or 0
    local keep = math.exp(-math.max(now - seen, 0) / DECAY)
    return mean * keep + sample * (1 - keep)
end

function M.pick()
    local i = 1
    if #peers > 1 then
        i = math.random(#peers)
        local other = math.random(#peers - 1)
        if other >= i then other = other + 1 end
        local now = ngx.now()
        if decayed(other, 0, now) < decayed(i, 0, now) then i = other end
    end
    ngx.ctx.peer = i
    local ok, err = balancer.set_current_peer(peers[i][1], peers[i][2])
    if not ok then ngx.log(ngx.ERR, "no server: ", err) end
end

function M.log()
    local i = ngx.ctx.peer
    local took = tonumber(ngx.var.upstream_response_time)
    if not i or not took then return end
    local connect = tonumber(ngx.var.upstream_connect_time) or 0
    -- One worker at a time; another's sample is lost, as it is there.
    if not shared:add("lock" .. i, true, 1) then return end
    local now = ngx.now()
    local mean = decayed(i, connect + took, now)
    shared:set("m" .. i, mean)
    shared:set("s" .. i, now)
    shared:delete("lock" .. i)
end

return M
