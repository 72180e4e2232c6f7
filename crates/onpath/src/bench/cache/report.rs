//! Medians over rounds, and ratios to the first form within them.

use super::work::{Cost, Phase};
use super::{CacheArgs, Form, Measured};
use crate::bench::beside::Beside;
use crate::bench::net::report::{show, table};
use crate::bench::posix::Spread;
use crate::cli::say;
use serde::Serialize;

/// Version of the JSON form.
const FORMAT: u32 = 1;

/// A form in a phase.
#[derive(Serialize)]
struct Row {
    phase: Phase,
    form: Form,
    us: Spread,
    us_ratio: Spread,
    /// Operations a second; 0 where there were pauses.
    rate: Spread,
    /// CPU time an operation of the hosts with shards, µs.
    cpu_us: Spread,
    cpu_ratio: Spread,
    /// That of the host with the switch.
    switch_us: Spread,
    /// Answers of the switch an operation.
    share: Spread,
}

#[derive(Serialize)]
struct Summary {
    format: u32,
    operations: u32,
    rounds: u32,
    window: u32,
    files: u32,
    cpu: usize,
    results: Vec<Row>,
}

fn row(all: &Beside<Form, Measured>, phase: Phase, form: Form) -> Row {
    let spread = |value: fn(&Cost) -> f64| all.spread(form, |one| value(one.cost(phase)));
    let ratio = |value: fn(&Cost) -> f64| all.ratio(form, |one| value(one.cost(phase)));
    Row {
        phase,
        form,
        us: spread(|cost| cost.us),
        us_ratio: ratio(|cost| cost.us),
        rate: spread(|cost| cost.rate),
        cpu_us: spread(|cost| cost.cpu_us),
        cpu_ratio: ratio(|cost| cost.cpu_us),
        switch_us: spread(|cost| cost.switch_us),
        share: spread(|cost| cost.share),
    }
}

/// Prints what was measured.
pub(super) fn print(args: &CacheArgs, cpu: usize, all: &Beside<Form, Measured>) -> anyhow::Result<()> {
    let CacheArgs { operations, rounds, window, files, .. } = *args;
    let forms = Form::all(args.switch_at.as_ref());
    let results = Phase::ALL.iter().flat_map(|&phase| forms.iter().map(move |&form| row(all, phase, form)));
    let (format, results) = (FORMAT, results.collect());
    let summary = Summary { format, operations, rounds, window, files, cpu, results };
    say(&if args.json { serde_json::to_string_pretty(&summary)? } else { summary.text() });
    Ok(())
}

impl Summary {
    fn text(&self) -> String {
        let mut text = format!(
            "{} looks each, {} files, {} rounds, {} under way where there are several, all on CPU {}: median (least – greatest)\n\
             ÷: of the first form in the same round; CPU time of the hosts with shards, and of that with the switch, each operation;\n\
             by switch: answers of it each operation\n",
            self.operations, self.files, self.rounds, self.window, self.cpu
        );
        for phase in Phase::ALL {
            let rows = self.results.iter().filter(|row| row.phase == phase).map(|row| {
                let Row { us, us_ratio, rate, cpu_us, cpu_ratio, switch_us, share, .. } = row;
                let cost = [show(us, 1), show(us_ratio, 2), show(rate, 0), show(cpu_us, 2), show(cpu_ratio, 2)];
                let of_switch = [show(switch_us, 2), show(share, 2)];
                [row.form.name().to_owned()].into_iter().chain(cost).chain(of_switch).collect()
            });
            let header = ["form", "µs", "÷", "1/s", "CPU, µs", "÷", "of switch, µs", "by switch"];
            text += &format!("\n{}\n{}", phase.title(), table(&header, rows.collect()));
        }
        text
    }
}
