//! Medians over rounds, and ratios to the first index within them.

use super::measure::Case;
use super::namespace::Shape;
use super::{IndexArgs, Kept};
use crate::bench::net::report::{show, table};
use crate::bench::posix::Spread;
use crate::cli::say;
use serde::Serialize;

/// Version of the JSON form.
const FORMAT: u32 = 1;

/// An index in one round.
pub(super) struct Measured {
    pub(super) kept: Kept,
    pub(super) round: usize,
    pub(super) cases: Vec<(Case, f64)>,
}

impl Measured {
    fn value(&self, case: Case) -> f64 {
        self.cases.iter().find(|(of, _)| *of == case).expect("every index is asked for the same").1
    }
}

/// What was measured up to now.
pub(super) struct Report<'a> {
    args: &'a IndexArgs,
    shape: Shape,
    all: Vec<Measured>,
}

/// An index in a case.
#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    case: Case,
    unit: &'static str,
    index: Kept,
    value: Spread,
    /// Of the first index in the same round; none where that has nothing.
    ratio: Option<Spread>,
}

#[derive(Serialize)]
struct Summary {
    format: u32,
    rounds: u32,
    lookups: u64,
    namespace: Shape,
    results: Vec<Row>,
}

impl<'a> Report<'a> {
    pub(super) fn new(args: &'a IndexArgs, shape: Shape) -> Report<'a> {
        Report { args, shape, all: vec![] }
    }

    pub(super) fn add(&mut self, measured: Measured) {
        self.all.push(measured);
    }

    /// All rounds of an index.
    fn of(&self, kept: Kept) -> impl Iterator<Item = &Measured> {
        self.all.iter().filter(move |one| one.kept == kept)
    }

    fn row(&self, case: Case, index: Kept) -> Row {
        let first = |one: &Measured| {
            let base = self.of(self.args.indexes[0]).find(|base| base.round == one.round);
            base.expect("a round has every index").value(case)
        };
        let is_some = self.of(index).all(|one| first(one) > 0.0);
        let ratio = is_some.then(|| Spread::of(self.of(index).map(|one| one.value(case) / first(one))));
        Row { case, unit: case.unit(), index, value: Spread::of(self.of(index).map(|one| one.value(case))), ratio }
    }

    pub(super) fn print(&self, json: bool) -> anyhow::Result<()> {
        let cases = self.all[0].cases.iter().map(|(case, _)| *case);
        let results = cases.flat_map(|case| self.args.indexes.iter().map(move |&kept| self.row(case, kept)));
        let IndexArgs { rounds, lookups, .. } = *self.args;
        let summary = Summary { format: FORMAT, rounds, lookups, namespace: self.shape, results: results.collect() };
        if json {
            say(&serde_json::to_string_pretty(&summary)?);
        } else {
            say(&summary.text(&self.args.indexes));
        }
        Ok(())
    }
}

impl Summary {
    fn text(&self, indexes: &[Kept]) -> String {
        let Shape { mean_depth, descending, user, group, other, .. } = self.namespace;
        let mut text = format!(
            "{}, {} rounds, {} lookups each: median (least – greatest), ÷ of {} in the same round\n\
             mean depth {mean_depth:.2}; {:.2} % with bits that descend all the way; bits let {:.2} % of the owners through, \
             {:.2} % of the members, {:.2} % of others\n",
            self.namespace.count(),
            self.rounds,
            self.lookups,
            indexes[0].name(),
            100.0 * descending,
            100.0 * user,
            100.0 * group,
            100.0 * other,
        );
        let header: Vec<String> = indexes.iter().map(|kept| kept.name()).collect();
        let header: Vec<&str> = ["what", "in"].into_iter().chain(header.iter().map(String::as_str)).collect();
        let rows = self.results.chunks(indexes.len()).map(|of_case| {
            let cells = of_case.iter().enumerate().map(|(at, row)| {
                let digits = if row.value.median < 10.0 { 2 } else { 0 };
                let ratio = row.ratio.filter(|_| at > 0).map(|ratio| format!(", ÷ {:.2}", ratio.median));
                show(&row.value, digits) + &ratio.unwrap_or_default()
            });
            [of_case[0].case.name(), of_case[0].unit.to_owned()].into_iter().chain(cells).collect()
        });
        text += &table(&header, rows.collect());
        text
    }
}
