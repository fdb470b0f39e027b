-- Looks after a service. The reactive nodes check their conditions at every tick: when the service goes down, the tree
-- cancels whatever it is doing and restarts it. It restarts at most once a minute (cooldown), and works only during the
-- shift (guard). The end of the shift is not a failure.
--
--     signalbox tree run examples/trees/watch.lua --tool probe='test -e service.up' --tool restart='touch service.up'

return BT.tree("watch", {
    blackboard = {
        rounds = { type = "int", default = 3 },
        round = { type = "int", default = 0 },
        up = { type = "bool", default = true },
        restarts = { type = "int", default = 0 },
    },
    root = BT.always_succeed(BT.guard(
        BT.condition("shift-lasts", { fn = function(t) return t:get("round") <= t:get("rounds") end }),
        BT.parallel("watch", { require = "one",
            -- probe the service repeatedly; this branch never ends
            BT.repeat_until("failure", BT.sequence("look", {
                BT.script("next-round", function(t) t:set("round", t:get("round") + 1) end),
                BT.selector({
                    BT.sequence({
                        BT.tool("probe"),
                        BT.script("is-up", function(t) t:set("up", true) end),
                    }),
                    BT.script("is-down", function(t) t:set("up", false) end),
                }),
                BT.wait("pause", 0.2),
            })),
            -- act on the state of the service
            BT.repeat_until("failure", BT.reactive_selector("tend", {
                BT.reactive_sequence("when-down", {
                    BT.inverter(BT.condition("is-it-up", { fn = function(t) return t:get("up") end })),
                    BT.cooldown(60, BT.sequence("restart-it", {
                        BT.tool("restart"),
                        BT.script("count", function(t) t:set("restarts", t:get("restarts") + 1) end),
                    })),
                }),
                BT.wait("rest", 0.1),
            })),
        }))),
})
