-- Goes through issues, and through the labels of each, with a for_each inside a for_each. The child starts again for every
-- item. An issue without labels does not end the loop (keep_going).
--
--     signalbox tree run examples/trees/triage.lua

return BT.tree("triage", {
    blackboard = {
        issues = { type = "list", default = {
            { id = 1, title = "crash on start", labels = { "bug", "windows" } },
            { id = 2, title = "dark mode", labels = { "wish" } },
            { id = 3, title = "???", labels = {} },
        } },
        labels = "list",
        urgent = { type = "list", default = {} },
        later = { type = "list", default = {} },
        unclear = { type = "list", default = {} },
        points = "int",
    },
    root = BT.for_each({ items = "issues", as = "issue", keep_going = true,
        BT.sequence("place", {
            BT.script("open", function(t)
                t:set("labels", t:get("issue").labels)
                t:set("points", 0)
            end),
            BT.for_each({ items = "labels", as = "label", index = "nth",
                BT.always_succeed(BT.sequence("weigh", {
                    BT.inverter(BT.condition("is-wish", { fn = function(t) return t:get("label") == "wish" end })),
                    BT.script("add", function(t) t:set("points", t:get("points") + 10) end),
                })),
            }),
            BT.selector("decide", {
                BT.sequence({
                    BT.condition("has-no-label", { fn = function(t) return #t:get("labels") == 0 end }),
                    BT.script("ask", function(t)
                        local list = t:get("unclear")
                        table.insert(list, t:get("issue").id)
                        t:set("unclear", list)
                        return t:fail("issue " .. t:get("issue").id .. " has no labels")
                    end),
                }),
                BT.sequence({
                    BT.condition("weighs-much", { fn = function(t) return t:get("points") >= 10 end }),
                    BT.script("now", function(t)
                        local list = t:get("urgent")
                        table.insert(list, t:get("issue").id)
                        t:set("urgent", list)
                    end),
                }),
                BT.sequence({
                    BT.condition("was-labelled", { fn = function(t) return #t:get("labels") > 0 end }),
                    BT.script("some-day", function(t)
                        local list = t:get("later")
                        table.insert(list, t:get("issue").id)
                        t:set("later", list)
                    end),
                }),
            }),
        }),
    }),
})
