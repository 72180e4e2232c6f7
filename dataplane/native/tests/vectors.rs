//! The C form passes every vector of dataplane/vectors.

mod common;

use common::runner;
use onpath_dataplane_native::Switch;

#[test]
fn the_c_form_passes_every_vector() {
    runner::all_pass::<Switch>();
}
