//! `onpath bench model` on small numbers.

use super::list;
use crate::common::server;
use serde_json::Value;
use std::collections::BTreeSet;
use std::ffi::OsStr;

/// `onpath bench model paths`: the paper's ratios beside ours, and what must be so whatever a machine's constants are.
#[test]
fn looks_at_paths_are_modelled_beside_the_papers_figures() {
    let words = ["bench", "model", "paths", "--servers", "2", "--directories", "10", "--json"];
    let output = server::run(words.map(OsStr::new));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let [ratios, rates] = [0, 1].map(|table| list(&list(&report, "tables")[table], "rows"));
    let figures: BTreeSet<_> = ratios.iter().map(|row| row["figure"].as_str().unwrap()).collect();
    assert!(["7 a–e", "7 f–j", "9", "10", "11"].iter().all(|figure| figures.contains(figure)), "{figures:?}");
    let of = |ratio: &str| {
        let row = ratios.iter().find(|row| row["ratio"] == ratio).unwrap_or_else(|| panic!("no {ratio}"));
        row["2 servers"].as_f64().unwrap()
    };
    let (beside, kept) = (of("path nodes beside shards ÷ best other"), of("kept ways ÷ best other"));
    assert!(1.0 < beside && beside < kept, "{beside}, {kept}");
    let [told, asked] =
        ["told", "asked for"].map(|how| of(&format!("cost of a fifth whose group is {how}, path node apart")));
    assert!((0.95..1.05).contains(&told), "{told}");
    assert!(asked > told + 0.1, "a path node that asks follows the path twice: {asked}, {told}");
    // Six ways, three depths.
    assert_eq!(rates.len(), 6 * 3);
    for row in rates {
        let [looks, median, p99] = ["looks/s", "median, µs", "p99, µs"].map(|name| row[name].as_f64().unwrap());
        assert!(looks > 0.0 && 0.0 < median && median <= p99, "{row}");
    }
}

/// `onpath bench model files`: the paper's figures beside ours, and what must be so whatever a machine's constants are.
#[test]
fn writes_of_files_are_modelled_beside_the_papers_figures() {
    let words = "bench model files --files 8 --operations 300 --link-us 1.5 --message-ns 150 --flush-us 0 --json";
    let output = server::run(words.split(' ').map(OsStr::new));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rows = list(&list(&report, "tables")[0], "rows");
    let figures: BTreeSet<_> = rows.iter().map(|row| row["figure"].as_str().unwrap()).collect();
    assert!(
        ["6", "7", "8", "9", "10a", "10c", "12a", "12b"].iter().all(|figure| figures.contains(figure)),
        "{figures:?}"
    );
    let of = |what: &str, way: &str| -> f64 {
        let row = rows.iter().find(|row| row["what"] == what).unwrap_or_else(|| panic!("no {what}"));
        match &row[way] {
            Value::String(change) => change.trim_end_matches(" %").parse().expect("a change"),
            number => number.as_f64().expect("a number"),
        }
    };
    // One round trip instead of two. Where half are reads, homes ask the parts of files back in the owner form.
    let (writes, half) = ("median of a write, 6 under way", "median of a write of 4096 bytes, 1 under way");
    for (what, way) in [(writes, "owner"), (writes, "network"), (half, "network")] {
        assert!(of(what, way) < -10.0, "{what}, {way}: {}", of(what, way));
    }
    let by_homes = |way| of("writes that homes answer, 6 under way", way);
    assert!(by_homes("network") < by_homes("two phases"), "data nodes answer some");
    assert_eq!(by_homes("two phases"), 100.0);
}

/// `onpath bench model cache`: the paper's figures beside ours, and what must be so whatever a machine's constants are.
#[test]
fn a_switch_with_a_cache_is_modelled_beside_the_papers_figures() {
    let words = "bench model cache --servers 2 --hot 20 --experiments 1,3 --json";
    let output = server::run(words.split(' ').map(OsStr::new));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rows = list(&list(&report, "tables")[0], "rows");
    let row = |what: &str| rows.iter().find(|row| row["what"] == what).unwrap_or_else(|| panic!("no {what}"));
    let number = |what: &str, of: &str| row(what)[of].as_f64().unwrap_or_else(|| panic!("{what}: no {of}"));
    // Some of the looks are for a few files, for which no server is asked.
    for what in ["Fletch over NoCache", "Fletch+ over CCache"] {
        let what = format!("Training, 2 servers: {what}");
        assert!(number(&what, "with the switch") > number(&what, "without"), "{}", row(&what));
        assert!((5.0..50.0).contains(&number(&what, "answered by it, %")), "{}", row(&what));
    }
    let opens = "Thumb, 2 servers, files opened and closed: Fletch+ over CCache";
    assert!(number(opens, "answered by it, %") > 5.0, "{}", row(opens));
    let turns =
        |chmods: u32, locks: &str| number(&format!("{chmods} % chmods, {locks}: recirculations a request"), "ours");
    for chmods in [0, 50] {
        let [none, multi, single] =
            ["no", "multi-level", "single-level"].map(|of| turns(chmods, &format!("{of} locks")));
        assert!(none > 0.5 && none <= multi * 1.05 && none <= single * 1.05, "{none}, {multi}, {single}");
        assert!(chmods > 0 || multi.max(single) <= none * 1.05, "readers wait for nobody: {none}, {multi}, {single}");
    }
}
