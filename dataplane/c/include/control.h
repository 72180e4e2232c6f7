/* The control plane: what all structures share, each of them, and reboot (D-37 to D-42, D-62 to D-66, D-111 to D-122). */
#ifndef ONPATH_CONTROL_H
#define ONPATH_CONTROL_H

#include "dirty_set/control.h"
#include "visibility/control.h"
#include "cache/control.h"

/* D-42, D-66, D-122. */
ONPATH_INLINE enum onpath_refusal onpath_control_reboot(struct onpath_state *state)
{
	onpath_reboot_dirty_set(state);
	onpath_reboot_visibility(state);
	onpath_reboot_cache(state);
	onpath_clear_tables(state);
	onpath_clear_counters(state);
	return ONPATH_ACCEPTED;
}

#endif
