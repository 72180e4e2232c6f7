//! `onpath bench calibrate`, `model` and `validate`: the cost model (docs/internals/cost-model.md).

mod cache;
mod calibrate;
mod files;
mod machine;
mod model;
mod paths;
mod sheet;
mod switchfs;
mod validate;

pub(super) use calibrate::CalibrateArgs;
pub(super) use calibrate::run as calibrate;
pub(super) use model::ModelArgs;
pub(super) use model::run as model;
pub(super) use validate::ValidateArgs;
pub(super) use validate::run as validate;

use anyhow::Context;
use onpath_sim::cost::Calibration;
use onpath_wire::shown::Shown;
use std::path::Path;

/// The constants of a file, or those that the program brings with it.
fn constants(file: Option<&Path>) -> anyhow::Result<Calibration> {
    let Some(file) = file else { return Ok(Calibration::reference()) };
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read {}: make it with onpath bench calibrate --out", file.shown()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not from onpath bench calibrate", file.shown()))
}
