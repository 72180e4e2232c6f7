/* Planted bugs (dataplane/rust/src/planted.rs): whether rule D-n is removed. Only a build for tests defines ONPATH_PLANTED, as the
 * expression of the rule that is removed; in every other build all of these questions are the constant 0. */
#ifndef ONPATH_PLANTED_H
#define ONPATH_PLANTED_H

#ifdef ONPATH_PLANTED
#define onpath_planted(rule) ((ONPATH_PLANTED) == (rule))
#else
#define onpath_planted(rule) ((void)(rule), 0)
#endif

#endif
