// What a packet does to one array of the value: the decision of D-82 and D-97, the same in each of the 21. Included inside of the control
// `CachedArray` of each architecture, whose actions touch the register at the index that the name has:
//
//   read     the packet's word becomes the register's
//   write    the register becomes the packet's word
//   nothing  the register is not touched

    table at_cached {
        key = {
            kind: ternary;
            state: ternary;
            done: ternary;
        }
        actions = { read; write; nothing; }
        const entries = {
            // Empty, or cleared.
            (KIND_READ, 32w0, _): nothing();
            (KIND_READ, 32w1 &&& 32w1, _): nothing();
            (KIND_READ, _, _): read();
            (KIND_FILL, _, 1w1): write();
        }
        const default_action = nothing();
    }
