// What becomes of a packet of the cache: D-76 to D-79, D-91 to D-105 and D-109 as one table, which counts every packet once but those that
// `missed` leaves to the sketch (D-43, D-106 to D-108), and each pass behind which there is another one (D-123). Included inside of the ingress of each architecture, whose actions take it from there:
//
//   not_asked(count)               to its destination, a miss that is not counted by its key (D-109)
//   missed()                       to its destination, a miss that is
//   answered()                     to who asks, with the value in the place of the levels
//   denied()                       to who asks
//   next_root()                    the next pass begins at the root
//   next_level()                   the next pass begins at the directory that is reached, one level below
//   to_destination(result, count)  to its destination, what it says is done or not

    table outcome {
        key = {
            meta.kind: ternary;
            meta.asked: ternary;
            meta.passed: ternary;
            meta.root: ternary;
            meta.last: ternary;
            meta.its: ternary;
            meta.done: ternary;
        }
        actions = {
            not_asked;
            missed;
            answered;
            denied;
            next_root;
            next_level;
            to_destination;
#ifdef CACHE_ALONE
            discard;
            route;
            pass;
#endif
        }
        const entries = {
#ifdef CACHE_ALONE
            // Elsewhere common/verdict.p4 says it: D-2 to D-8, D-11, D-44, D-67 to D-72.
            ((bit<8>)COUNT_DROP_TRUNCATED, _, _, _, _, _, _): discard(COUNT_DROP_TRUNCATED);
            ((bit<8>)COUNT_DROP_VERSION, _, _, _, _, _, _): discard(COUNT_DROP_VERSION);
            ((bit<8>)COUNT_DROP_CLUSTER, _, _, _, _, _, _): discard(COUNT_DROP_CLUSTER);
            ((bit<8>)COUNT_DROP_STRUCTURE, _, _, _, _, _, _): discard(COUNT_DROP_STRUCTURE);
            ((bit<8>)COUNT_DROP_OPERATION, _, _, _, _, _, _): discard(COUNT_DROP_OPERATION);
            ((bit<8>)COUNT_DROP_RESERVED, _, _, _, _, _, _): discard(COUNT_DROP_RESERVED);
            ((bit<8>)COUNT_DROP_SHARD, _, _, _, _, _, _): discard(COUNT_DROP_SHARD);
            ((bit<8>)COUNT_DROP_STRANGER, _, _, _, _, _, _): discard(COUNT_DROP_STRANGER);
            (KIND_ANSWERED, _, _, _, _, _, _): route(COUNT_ANSWERED);
            (KIND_PLAIN, _, _, _, _, _, _): pass(COUNT_PLAIN);
#endif
            // D-76 to D-78, D-109.
            (KIND_READ, ASKED_OTHER_EPOCH, _, _, _, _, _): not_asked(COUNT_READ_OTHER_EPOCH);
            (KIND_READ, ASKED_BY_STRANGER, _, _, _, _, _): not_asked(COUNT_READ_STRANGER);
            // D-92, D-79 and D-91 (D-123), D-93, D-94.
            (KIND_READ, _, LEVEL_PASSED, _, 1w1, _, _): answered();
            (KIND_READ, _, LEVEL_PASSED, 1w1, _, _, _): next_root();
            (KIND_READ, _, LEVEL_PASSED, _, _, _, _): next_level();
            (KIND_READ, _, LEVEL_DENIED, _, _, _, _): denied();
            (KIND_READ, _, _, _, _, _, _): missed();
            // D-95, D-97, D-98, D-96 and D-99; D-100.
            (KIND_FILL, ASKED_OTHER_EPOCH, _, _, _, _, _): to_destination(CACHE_RESULT_OTHER_EPOCH, COUNT_FILL_OTHER_EPOCH);
            (KIND_FILL, _, _, _, _, _, 1w1): to_destination(CACHE_RESULT_FILLED, COUNT_FILL_DONE);
            (KIND_FILL, _, _, _, _, 1w1, _): to_destination(CACHE_RESULT_NOT_NEWER, COUNT_FILL_NOT_NEWER);
            (KIND_FILL, _, _, _, _, _, _): to_destination(CACHE_RESULT_NOT_THERE, COUNT_FILL_NOT_THERE);
            // D-101, D-102 and D-103, D-104; D-105.
            (KIND_INVALIDATE, ASKED_OTHER_EPOCH, _, _, _, _, _): to_destination(CACHE_RESULT_OTHER_EPOCH, COUNT_INVALIDATE_OTHER_EPOCH);
            (KIND_INVALIDATE, _, _, _, _, _, 1w1): to_destination(CACHE_RESULT_CLEARED, COUNT_INVALIDATE_DONE);
            (KIND_INVALIDATE, _, _, _, _, _, _): to_destination(CACHE_RESULT_NOT_THERE, COUNT_INVALIDATE_NOT_THERE);
        }
        const default_action = not_asked(COUNT_READ_OTHER_EPOCH);
    }
