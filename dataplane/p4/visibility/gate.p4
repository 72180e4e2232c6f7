// What a packet does to the gate of its entry: the decision of D-48 to D-51, D-55 to D-58 and D-60. Included inside of the control `Gate` of
// each architecture, whose actions touch the register, fingerprint and Ts, at the packet's entry:
//
//   look     held becomes 1 if the entry is occupied by the packet's fingerprint (a packet has none that is 0)
//   install  if the packet's ts is newer, the first, or the entry's own while that is occupied, both become the packet's, and held 1
//   clear    if the entry is occupied and Ts the packet's ts, the fingerprint becomes 0, and held 1
//   nothing  the register is not touched

    table at_gate {
        key = {
            kind: ternary;
            tracking: ternary;
        }
        actions = { look; install; clear; nothing; }
        const entries = {
            (KIND_LOOK, TRACKING_COMPLETE): look();
            (KIND_INSTALL, TRACKING_OTHER): nothing();
            (KIND_INSTALL, _): install();
            (KIND_CLEAR, _): clear();
        }
        const default_action = nothing();
    }
