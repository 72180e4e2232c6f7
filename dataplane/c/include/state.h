/* All that a target provides (common/state.h). */
#ifndef ONPATH_STATE_H
#define ONPATH_STATE_H

#include "dirty_set/state.h"
#include "visibility/state.h"
#include "cache/state.h"

#endif
