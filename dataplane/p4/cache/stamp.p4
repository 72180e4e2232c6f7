// What a packet does to the stamp of its entry: the decision of D-80, D-81, D-96 to D-99 and D-102 to D-104. Included inside of the control
// `Stamp` of each architecture, whose actions touch the register, n and s, at the index that the name has:
//
//   read        state becomes s if n is the name's number, otherwise it stays 0
//   fill        if n is the number, its becomes 1; if s is below `reaches` too, s becomes that, and done 1
//   invalidate  if n is the number, done becomes 1, and s `reaches` unless it is more
//   nothing     the register is not touched

    table at_stamp {
        key = {
            meta.kind: ternary;
            meta.asked: ternary;
            meta.found: ternary;
            meta.other_number: ternary;
        }
        actions = { read; fill; invalidate; nothing; }
        const entries = {
            (KIND_READ, ASKED_WELL, 1w1, _): read();
            (KIND_FILL, ASKED_WELL, 1w1, 32w0): fill();
            (KIND_INVALIDATE, ASKED_WELL, 1w1, 32w0): invalidate();
        }
        const default_action = nothing();
    }
