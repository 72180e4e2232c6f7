//! Two builds of this program, in turn: each round of a benchmark is run by the one, then by the other, and what it gives is compared
//! within the round. What disturbs the machine so disturbs both.

use super::posix::Spread;
use crate::cli::say;
use anyhow::{Context, bail, ensure};
use comfy_table::{CellAlignment, Table, presets};
use onpath_wire::shown::Shown;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Options of this comparison, which the builds are not given.
const OWN: [&str; 3] = ["--binary", "--rounds", "--json"];

/// Compares two builds by the benchmark that this process was asked for.
pub(super) fn compare(binaries: &[PathBuf], rounds: u32, json: bool) -> anyhow::Result<()> {
    let [first, second] = binaries else { bail!("--binary: two builds are compared: give it twice") };
    let args = of_benchmark(std::env::args_os().skip(1));
    let mut figures: BTreeMap<String, [Vec<f64>; 2]> = BTreeMap::new();
    for round in 0..rounds {
        for (at, binary) in [first, second].into_iter().enumerate() {
            eprintln!("round {} of {rounds}: {}", round + 1, binary.shown());
            for (name, value) in measure(binary, &args)? {
                figures.entry(name).or_default()[at].push(value);
            }
        }
    }
    figures.retain(|_, [a, b]| a.len() == b.len());
    ensure!(!figures.is_empty(), "the builds have no figure in common");
    print([first, second], &figures, json)
}

/// The arguments of this process without those of the comparison.
fn of_benchmark(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut kept = vec![];
    let mut skip = false;
    for arg in args {
        let text = arg.to_string_lossy();
        let own = OWN.iter().find(|own| text == **own || text.starts_with(&format!("{own}=")));
        match own {
            _ if skip => skip = false,
            Some(own) => skip = text == **own && *own != "--json",
            None => kept.push(arg),
        }
    }
    kept
}

/// One round of one build: its figures by their names.
fn measure(binary: &Path, args: &[OsString]) -> anyhow::Result<Vec<(String, f64)>> {
    let mut command = Command::new(binary);
    command.args(args).args(["--rounds", "1", "--json"].map(OsStr::new)).stderr(Stdio::piped());
    let output = command.output().with_context(|| format!("cannot run {}", binary.shown()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} ended with {}:\n{said}", binary.shown(), output.status);
    let told = serde_json::from_slice(&output.stdout).with_context(|| format!("{} gave no JSON", binary.shown()))?;
    let mut found = vec![];
    medians(&told, &mut vec![], &mut found);
    Ok(found)
}

/// Every value with a median, named by the words that lead to it: keys, and the texts of the objects around it.
fn medians(value: &Value, words: &mut Vec<String>, found: &mut Vec<(String, f64)>) {
    let depth = words.len();
    match value {
        Value::Array(all) => all.iter().for_each(|value| medians(value, words, found)),
        Value::Object(fields) => {
            if let Some(median) = fields.get("median").and_then(Value::as_f64) {
                return found.push((words.join(" "), median));
            }
            words.extend(fields.values().filter_map(Value::as_str).map(str::to_owned));
            for (key, value) in fields {
                words.push(key.clone());
                medians(value, words, found);
                words.pop();
            }
        }
        _ => {}
    }
    words.truncate(depth);
}

fn print(binaries: [&Path; 2], figures: &BTreeMap<String, [Vec<f64>; 2]>, json: bool) -> anyhow::Result<()> {
    let rows: Vec<(&String, [Spread; 3])> = figures
        .iter()
        .map(|(name, [a, b])| {
            let ratios = a.iter().zip(b).map(|(a, b)| b / a);
            (name, [Spread::of(a.iter().copied()), Spread::of(b.iter().copied()), Spread::of(ratios)])
        })
        .collect();
    if json {
        let figures: Vec<Value> = rows
            .iter()
            .map(|(name, [first, second, ratio])| json!({"name": name, "first": first, "second": second, "ratio": ratio}))
            .collect();
        let all = json!({"binaries": binaries, "figures": figures});
        say(&serde_json::to_string_pretty(&all)?);
        return Ok(());
    }
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(["", "first", "second", "second/first", "min – max"]);
    for (name, [first, second, ratio]) in rows {
        let range = format!("{:.3} – {:.3}", ratio.min, ratio.max);
        table.add_row([
            name.clone(),
            format!("{:.2}", first.median),
            format!("{:.2}", second.median),
            format!("{:.3}", ratio.median),
            range,
        ]);
    }
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    say(&table.to_string());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_builds_are_not_given_what_is_asked_of_the_comparison() {
        let args = ["bench", "net", "--binary", "/a", "--rounds=3", "--dir", "/tmp", "--binary=/b", "--json"];
        let kept = of_benchmark(args.into_iter().map(OsString::from));
        assert_eq!(kept, ["bench", "net", "--dir", "/tmp"]);
    }

    #[test]
    fn figures_are_named_by_what_leads_to_them() {
        let told = json!({"format": 1, "latencies": [
            {"wait": "block", "case": "create", "us": {"min": 1.0, "median": 2.0, "max": 3.0}, "bytes": 7},
            {"wait": "spin", "case": "create", "us": {"median": 4.0}},
        ]});
        let mut found = vec![];
        medians(&told, &mut vec![], &mut found);
        found.sort_by(|a, b| a.0.cmp(&b.0));
        let names: Vec<_> = found.iter().map(|(name, value)| (name.split(' ').count(), *value)).collect();
        assert_eq!(names, [(4, 2.0), (4, 4.0)], "{found:?}");
        assert!(found[0].0.contains("block") && found[1].0.contains("spin"), "{found:?}");
    }
}
