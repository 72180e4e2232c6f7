// What a packet does to one array of values: the decision of D-52, D-56 and D-59, the same in each of the 24. Included inside of the control
// `ValueArray` of each architecture, whose actions touch the register at the packet's entry:
//
//   read     the packet's word becomes the register's
//   write    the register becomes the packet's word
//   nothing  the register is not touched

    table at_value {
        key = {
            kind: ternary;
            held: ternary;
        }
        actions = { read; write; nothing; }
        const entries = {
            (KIND_LOOK, 1w1): read();
            (KIND_INSTALL, 1w1): write();
        }
        const default_action = nothing();
    }
