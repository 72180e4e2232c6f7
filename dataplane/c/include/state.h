/* All that a target provides (common/state.h). */
#ifndef ONPATH_STATE_H
#define ONPATH_STATE_H

#include "dirty_set/state.h"
#include "visibility/state.h"
/* A target that has no cache says so by this macro. */
#ifndef ONPATH_WITHOUT_CACHE
#include "cache/state.h"
#endif

#endif
