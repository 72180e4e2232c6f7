// What becomes of a packet, stage 11: D-11, D-18 to D-34, D-44 and D-53 to D-61 as one table, which counts every packet once (D-43).
// Included inside of the ingress of each architecture, whose actions take it from there:
//
//   pass(count)                             as without the program (D-1)
//   discard(count)                          dropped
//   route(count)                            to its destination, with the result that it has (D-11)
//   to_destination(result, count)           to its destination
//   to_shard(result, count)                 to the shard that sent it
//   to_shard_and_destination(result, count) to both (D-23, D-53)

    table verdict {
        key = {
            meta.kind: ternary;
            meta.tracking: ternary;
            meta.held: ternary;
            meta.admitted: ternary;
            meta.term_order: ternary;
            hdr.innet.destination: ternary;
        }
        actions = {
            pass;
            discard;
            route;
            to_destination;
            to_shard;
            to_shard_and_destination;
        }
        const entries = {
            // D-2 to D-10, D-45, D-46: the parser has said it.
            ((bit<8>)COUNT_DROP_TRUNCATED, _, _, _, _, _): discard(COUNT_DROP_TRUNCATED);
            ((bit<8>)COUNT_DROP_VERSION, _, _, _, _, _): discard(COUNT_DROP_VERSION);
            ((bit<8>)COUNT_DROP_CLUSTER, _, _, _, _, _): discard(COUNT_DROP_CLUSTER);
            ((bit<8>)COUNT_DROP_STRUCTURE, _, _, _, _, _): discard(COUNT_DROP_STRUCTURE);
            ((bit<8>)COUNT_DROP_OPERATION, _, _, _, _, _): discard(COUNT_DROP_OPERATION);
            ((bit<8>)COUNT_DROP_RESERVED, _, _, _, _, _): discard(COUNT_DROP_RESERVED);
            ((bit<8>)COUNT_DROP_SHARD, _, _, _, _, _): discard(COUNT_DROP_SHARD);
            ((bit<8>)COUNT_DROP_INDEX, _, _, _, _, _): discard(COUNT_DROP_INDEX);
            ((bit<8>)COUNT_DROP_TAG, _, _, _, _, _): discard(COUNT_DROP_TAG);
            ((bit<8>)COUNT_DROP_FINGERPRINT, _, _, _, _, _): discard(COUNT_DROP_FINGERPRINT);
            ((bit<8>)COUNT_DROP_TS, _, _, _, _, _): discard(COUNT_DROP_TS);
            // D-44: known before the arrays.
            ((bit<8>)COUNT_DROP_STRANGER, _, _, _, _, _): discard(COUNT_DROP_STRANGER);
            // D-11.
            (KIND_ANSWERED, _, _, _, _, _): route(COUNT_ANSWERED);
            // D-18, D-19.
            (KIND_QUERY, TRACKING_COMPLETE, 1w1, _, _, _): to_destination(RESULT_SCATTERED, COUNT_QUERY_SCATTERED);
            (KIND_QUERY, TRACKING_COMPLETE, _, _, _, _): to_destination(RESULT_NORMAL, COUNT_QUERY_NORMAL);
            (KIND_QUERY, _, _, _, _, _): to_destination(RESULT_UNKNOWN, COUNT_QUERY_UNKNOWN);
            // D-26, D-23 (nobody but the shard if there is no destination), D-24.
            (KIND_INSERT, TRACKING_OTHER, _, _, _, _): to_shard(RESULT_OTHER_EPOCH, COUNT_INSERT_OTHER_EPOCH);
            (KIND_INSERT, _, 1w1, _, _, 32w0): to_shard(RESULT_MARKED, COUNT_INSERT_MARKED);
            (KIND_INSERT, _, 1w1, _, _, _): to_shard_and_destination(RESULT_MARKED, COUNT_INSERT_MARKED);
            (KIND_INSERT, _, _, _, _, _): to_shard(RESULT_FULL, COUNT_INSERT_FULL);
            // D-30, D-31, D-29.
            (KIND_REMOVE, _, _, 1w0, TERM_LOWER, _): discard(COUNT_DROP_TERM_LOWER);
            (KIND_REMOVE, _, _, 1w0, TERM_AHEAD, _): discard(COUNT_DROP_TERM_AHEAD);
            (KIND_REMOVE, _, _, 1w0, _, _): discard(COUNT_DROP_NOT_NEWER);
            // D-33, D-27; D-34.
            (KIND_REMOVE, TRACKING_OTHER, _, _, _, _): to_destination(RESULT_OTHER_EPOCH, COUNT_REMOVE_OTHER_EPOCH);
            (KIND_REMOVE, _, _, _, _, _): to_destination(RESULT_REMOVED, COUNT_REMOVE_DONE);
            // D-56, D-57.
            (KIND_LOOK, TRACKING_COMPLETE, 1w1, _, _, _): to_destination(RESULT_PENDING, COUNT_LOOK_PENDING);
            (KIND_LOOK, TRACKING_COMPLETE, _, _, _, _): to_destination(RESULT_NONE, COUNT_LOOK_NONE);
            (KIND_LOOK, _, _, _, _, _): to_destination(RESULT_UNKNOWN, COUNT_LOOK_UNKNOWN);
            // D-55, D-53 (nobody but the home if there is no destination), D-54.
            (KIND_INSTALL, TRACKING_OTHER, _, _, _, _): to_shard(RESULT_OTHER_EPOCH, COUNT_INSTALL_OTHER_EPOCH);
            (KIND_INSTALL, _, 1w1, _, _, 32w0): to_shard(RESULT_INSTALLED, COUNT_INSTALL_DONE);
            (KIND_INSTALL, _, 1w1, _, _, _): to_shard_and_destination(RESULT_INSTALLED, COUNT_INSTALL_DONE);
            (KIND_INSTALL, _, _, _, _, _): to_shard(RESULT_OLDER, COUNT_INSTALL_OLDER);
            // D-58, D-60, D-61.
            (KIND_CLEAR, _, 1w1, _, _, _): to_destination(RESULT_CLEARED, COUNT_CLEAR_DONE);
            (KIND_CLEAR, _, _, _, _, _): to_destination(RESULT_KEPT, COUNT_CLEAR_KEPT);
        }
        const default_action = pass(COUNT_PLAIN);
    }
