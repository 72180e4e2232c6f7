// What a packet does to one array of tags: the decision of D-18 to D-22, D-26, D-27 and D-33, the same in each of the ten stages.
// Included inside of the control `TagArray` of each architecture, whose actions touch the register at the packet's set:
//
//   query              held becomes 1 if the register equals tag
//   conditional_insert a register that is 0 or equals tag becomes tag, and held 1
//   conditional_remove a register that equals tag becomes 0
//   nothing            the register is not touched

    table step {
        key = {
            kind: ternary;
            tracking: ternary;
            admitted: ternary;
            held: ternary;
        }
        actions = { query; conditional_insert; conditional_remove; nothing; }
        const entries = {
            (KIND_QUERY, _, _, _): query();
            (KIND_INSERT, TRACKING_OTHER, _, _): nothing();
            (KIND_INSERT, _, _, 1w0): conditional_insert();
            (KIND_INSERT, _, _, 1w1): conditional_remove();
            (KIND_REMOVE, TRACKING_OTHER, _, _): nothing();
            (KIND_REMOVE, _, 1w1, _): conditional_remove();
        }
        const default_action = nothing();
    }
