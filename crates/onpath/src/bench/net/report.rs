//! Medians over rounds, and ratios within them.

use crate::bench::posix::Spread;
use crate::cli::{WaitMode, say};
use clap::ValueEnum;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

/// Version of the JSON form.
const FORMAT: u32 = 1;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Case {
    /// Attributes of a file that the shard has in memory.
    Getattr,
    /// open(2) with O_CREAT of new names in one directory, tracked by its owner, whose grant is held.
    Create,
    /// The same of a directory that the switch tracks: its mark is there, and stays.
    CreateNetwork,
    /// The same where every update is marked, of names that need it: each passes the switch.
    CreateMarked,
    /// The same with marks that stay, after a look at the directory, which takes mark and grant away.
    CreateAfterStat,
    /// rename(2) of a file to a name of another host, where nothing of that name was.
    RenameAcross,
    /// The same where a third host has the inode.
    RenameAcrossThird,
    /// unlink(2) of the only name of a file whose inode another host has.
    UnlinkAcross,
}

/// One case in one round.
pub(super) struct Measured {
    pub(super) wait: WaitMode,
    pub(super) case: Case,
    /// Mean bytes of a request and of a reply, as UDP carries them.
    pub(super) bytes: (usize, usize),
    /// Median of a request, ns.
    pub(super) ns: f64,
    /// Median of the echo, ns.
    pub(super) echo_ns: f64,
    pub(super) rate: Option<Rate>,
}

/// Several requests under way.
#[derive(Clone, Copy)]
pub(super) struct Rate {
    /// Answers a second.
    pub(super) rate: f64,
    /// Datagrams each took, both ways together.
    pub(super) datagrams: f64,
    /// Answers a second of an echo with sendmmsg and recvmmsg.
    pub(super) many: f64,
    /// The same with GSO and GRO.
    pub(super) packed: f64,
}

#[derive(Serialize)]
struct Placement {
    wait: WaitMode,
    server_cpu: usize,
    client_cpu: usize,
}

/// Latency of a case, µs.
#[derive(Serialize)]
struct Latency {
    wait: WaitMode,
    case: Case,
    request_bytes: usize,
    reply_bytes: usize,
    us: Spread,
    echo_us: Spread,
    ratio: Spread,
}

/// Throughput of a case, answers a second.
#[derive(Serialize)]
struct Throughput {
    wait: WaitMode,
    case: Case,
    rate: Spread,
    datagrams: Spread,
    echo_many: Spread,
    echo_packed: Spread,
    ratio_many: Spread,
    ratio_packed: Spread,
}

#[derive(Serialize)]
struct Summary {
    format: u32,
    operations: u32,
    rounds: u32,
    window: u32,
    placement: Vec<Placement>,
    latencies: Vec<Latency>,
    throughput: Vec<Throughput>,
}

/// What was measured up to now.
pub(super) struct Report {
    operations: u32,
    rounds: u32,
    window: u32,
    placement: Vec<(WaitMode, (usize, usize))>,
    all: Vec<Measured>,
}

impl Report {
    pub(super) fn new(operations: u32, rounds: u32, window: u32) -> Report {
        Report { operations, rounds, window, placement: vec![], all: vec![] }
    }

    pub(super) fn place(&mut self, wait: WaitMode, cpus: (usize, usize)) {
        self.placement.push((wait, cpus));
    }

    pub(super) fn add(&mut self, measured: Measured) {
        self.all.push(measured);
    }

    /// The throughput of the case that was added last.
    pub(super) fn rate(&mut self, rate: Rate) {
        self.all.last_mut().expect("a case was added").rate = Some(rate);
    }

    fn summary(&self) -> Summary {
        let (mut latencies, mut throughput) = (vec![], vec![]);
        let mut keys: Vec<(WaitMode, Case)> = vec![];
        for one in &self.all {
            if !keys.contains(&(one.wait, one.case)) {
                keys.push((one.wait, one.case));
            }
        }
        for (wait, case) in keys {
            let of: Vec<&Measured> = self.all.iter().filter(|one| (one.wait, one.case) == (wait, case)).collect();
            let spread = |value: &dyn Fn(&Measured) -> f64| Spread::of(of.iter().map(|one| value(one)));
            latencies.push(Latency {
                wait,
                case,
                request_bytes: of[0].bytes.0,
                reply_bytes: of[0].bytes.1,
                us: spread(&|one| one.ns / 1e3),
                echo_us: spread(&|one| one.echo_ns / 1e3),
                ratio: spread(&|one| one.ns / one.echo_ns),
            });
            let rates: Vec<Rate> = of.iter().filter_map(|one| one.rate).collect();
            if rates.is_empty() {
                continue;
            }
            let spread = |value: &dyn Fn(&Rate) -> f64| Spread::of(rates.iter().map(value));
            throughput.push(Throughput {
                wait,
                case,
                rate: spread(&|one| one.rate),
                datagrams: spread(&|one| one.datagrams),
                echo_many: spread(&|one| one.many),
                echo_packed: spread(&|one| one.packed),
                ratio_many: spread(&|one| one.rate / one.many),
                ratio_packed: spread(&|one| one.rate / one.packed),
            });
        }
        let placement = self.placement.iter();
        let placement =
            placement.map(|&(wait, (server_cpu, client_cpu))| Placement { wait, server_cpu, client_cpu }).collect();
        let Report { operations, rounds, window, .. } = *self;
        Summary { format: FORMAT, operations, rounds, window, placement, latencies, throughput }
    }

    pub(super) fn print(&self, json: bool) -> anyhow::Result<()> {
        let summary = self.summary();
        if json {
            say(&serde_json::to_string_pretty(&summary)?);
        } else {
            say(&summary.text());
        }
        Ok(())
    }
}

impl Summary {
    fn text(&self) -> String {
        let mut text =
            format!("{} requests a round, {} rounds: median (least – greatest)\n", self.operations, self.rounds);
        for Placement { wait, server_cpu, client_cpu } in &self.placement {
            text += &format!("{}: servers on CPU {server_cpu}, client on CPU {client_cpu}\n", wait.word());
        }
        let rows = self.latencies.iter().map(|one| {
            let bytes = format!("{} + {}", one.request_bytes, one.reply_bytes);
            vec![
                one.wait.word().to_owned(),
                name(one.case),
                bytes,
                show(&one.us, 2),
                show(&one.echo_us, 2),
                show(&one.ratio, 2),
            ]
        });
        text += &table(&["waiting", "request", "bytes", "µs", "echo, µs", "÷ echo"], rows.collect());
        let rows = self.throughput.iter().map(|one| {
            let numbers = [
                show(&one.rate, 0),
                show(&one.datagrams, 2),
                show(&one.echo_many, 0),
                show(&one.ratio_many, 2),
                show(&one.echo_packed, 0),
                show(&one.ratio_packed, 2),
            ];
            [one.wait.word().to_owned(), name(one.case)].into_iter().chain(numbers).collect()
        });
        text += &format!("\n{} requests under way\n", self.window);
        let header = ["waiting", "request", "1/s", "datagrams", "echo, mmsg, 1/s", "÷", "echo, GSO, 1/s", "÷"];
        text + &table(&header, rows.collect())
    }
}

fn name(case: Case) -> String {
    case.to_possible_value().expect("no case is hidden").get_name().to_owned()
}

pub(in crate::bench) fn show(spread: &Spread, digits: usize) -> String {
    format!("{:.digits$} ({:.digits$} – {:.digits$})", spread.median, spread.min, spread.max)
}

pub(in crate::bench) fn table(header: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN).set_header(header);
    table.column_iter_mut().skip(2).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    rows.into_iter().for_each(|row| _ = table.add_row(row));
    format!("\n{table}\n")
}
