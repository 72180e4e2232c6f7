//! `onpath bench model paths`: looks at paths by path nodes, by kept ways, and as three other file systems have it, beside what SPMeta's authors
//! have measured (*SPMeta*, figures 7, 9, 10 and 11).

use super::model::{Setup, us};
use super::sheet::{Cell, Sheet};
use anyhow::ensure;
use onpath_sim::cost::{
    FallBack, Follow, IndexKind, Kind, Looks, Measured, Model, ModelConfig, PathNodes, Shares, Tracking, TreeShape,
    Until,
};

/// Numbers of servers, unless others are wanted.
pub(super) const SERVERS: [u16; 3] = [4, 8, 16];
/// Names of the paths of figure 7: the paper's four trees from production have 9 to 14 on average.
const USUAL: u32 = 10;
/// Names of the paths of figure 9.
const DEPTHS: [u32; 6] = [4, 6, 7, 8, 10, 12];
/// Directories in each directory, as in the paper's made-up trees.
const FANOUT: u32 = 10;
/// The larger tree of figure 10 has so many times as many directories.
const LARGER: u32 = 10;
/// What figure 7 changes: 5.0 % creates, 4.1 % unlinks, 1.0 % mkdirs.
const MIXED: Shares = Shares { create: 0.050, unlink: 0.041, mkdir: 0.010, chmod: 0.0, rename: 0.0 };
/// The largest share of writes and of fall-backs of figure 11.
const FIFTH: f64 = 0.2;
/// The share of changes of directories: the most that the paper knows of in production, and a hundred times as many.
const MOVES: [f64; 2] = [0.000_1, 0.01];
/// Virtual time before anything is measured, and measured, ns.
const UNTIL: Until = Until { warm_ns: 3_000_000, measured_ns: 8_000_000, operations: u64::MAX };

/// How a look is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Serial,
    Parallel,
    Central,
    Apart,
    Beside,
    Kept,
}

impl Way {
    const ALL: [Way; 6] = [Way::Serial, Way::Parallel, Way::Central, Way::Apart, Way::Beside, Way::Kept];
    const BASELINES: [Way; 3] = [Way::Serial, Way::Parallel, Way::Central];

    fn word(self) -> &'static str {
        match self {
            Way::Serial => "name by name",
            Way::Parallel => "all names at once",
            Way::Central => "directory server",
            Way::Apart => "path node apart",
            Way::Beside => "path nodes beside shards",
            Way::Kept => "kept ways",
        }
    }

    fn path_nodes(self) -> PathNodes {
        match self {
            Way::Serial | Way::Parallel => PathNodes::None,
            Way::Central => PathNodes::Central,
            Way::Apart => PathNodes::Apart,
            Way::Beside | Way::Kept => PathNodes::Beside,
        }
    }

    fn follow(self) -> Follow {
        match self {
            Way::Serial => Follow::Serial,
            Way::Parallel => Follow::Parallel,
            Way::Central | Way::Apart | Way::Beside => Follow::Led,
            Way::Kept => Follow::Kept,
        }
    }
}

/// Runs of so many servers.
struct Lab<'a> {
    setup: &'a Setup,
    servers: u16,
    /// Directories of a level.
    width: u32,
}

impl Lab<'_> {
    /// A system whose servers have all that they keep of the ways to these depths.
    fn model(&self, way: Way, index: IndexKind, width: u32, depths: &[u32]) -> Model {
        let apart = matches!(way, Way::Central | Way::Apart);
        let servers = self.servers - u16::from(apart);
        let config = self.setup.config(self.servers, Tracking::Owner);
        let mut model = Model::new(ModelConfig { servers, path_nodes: way.path_nodes(), index, ..config });
        model.make_tree(&TreeShape { fanout: FANOUT, width, depths: depths.into() });
        model.warm(depths, way.follow());
        model
    }

    fn looks(&self, way: Way, depth: u32) -> Looks {
        Looks::at(depth, way.follow(), self.setup.seed)
    }

    /// Looks by path nodes with reachability bits, or without, and how many times as long each takes if for a fifth the bits do not suffice.
    fn fall_back(&self, way: Way, index: IndexKind, why: FallBack) -> f64 {
        let mut model = self.model(way, index, self.width, &[USUAL]);
        if why == FallBack::Shards {
            model.warm(&[USUAL], Follow::Serial);
        }
        let mut rate = |fall_back| rate(&model.run_looks(&Looks { fall_back, ..self.looks(way, USUAL) }, UNTIL));
        rate(None) / rate(Some((why, FIFTH)))
    }

    /// The rate with so many changes, beside that without.
    fn changed(&self, way: Way, shares: Shares) -> f64 {
        let mut model = self.model(way, IndexKind::Hi, self.width, &[USUAL]);
        let mut rate = |shares| rate(&model.run_looks(&Looks { shares, ..self.looks(way, USUAL) }, UNTIL));
        let before = rate(Shares::default());
        rate(shares) / before
    }

    /// The rate in a tree with many times as many directories, beside the usual one.
    fn larger(&self, way: Way) -> f64 {
        let [one, more] = [1, LARGER].map(|times| {
            let mut model = self.model(way, IndexKind::Hi, times * self.width, &[USUAL]);
            rate(&model.run_looks(&self.looks(way, USUAL), UNTIL))
        });
        more / one
    }
}

/// Everything that was asked for, a second.
fn rate(measured: &Measured) -> f64 {
    measured.kinds.keys().map(|&kind| measured.rate(kind)).sum()
}

/// Rates of all ways by depth, and with changes.
struct Rates {
    by_depth: Vec<(Way, u32, f64)>,
    mixed: Vec<(Way, f64)>,
}

impl Rates {
    fn of(&self, way: Way, depth: u32) -> f64 {
        let measured = self.by_depth.iter().find(|(one, at, _)| (*one, *at) == (way, depth));
        measured.expect("all are measured").2
    }

    fn mixed(&self, way: Way) -> f64 {
        self.mixed.iter().find(|(other, _)| *other == way).expect("all are measured").1
    }

    /// The best of the others.
    fn best(&self, depth: u32) -> f64 {
        Way::BASELINES.into_iter().map(|way| self.of(way, depth)).fold(0.0, f64::max)
    }

    fn best_mixed(&self) -> f64 {
        Way::BASELINES.into_iter().map(|way| self.mixed(way)).fold(0.0, f64::max)
    }

    /// The first depth at which a directory server does more than who asks for all names at once.
    fn passes(&self) -> Option<u32> {
        DEPTHS.into_iter().find(|&depth| self.of(Way::Central, depth) > self.of(Way::Parallel, depth))
    }
}

/// A row of the ratios: the figure, what is compared, what the paper says of it.
type Row = (&'static str, &'static str, &'static str);

const ROWS: [Row; 29] = [
    ("7 a–e", "all names at once ÷ name by name", "1.18–1.24"),
    ("7 a–e", "directory server ÷ all names at once", "1.31–1.64"),
    ("7 a–e", "path node apart ÷ best other", "2.19–2.86"),
    ("7 a–e", "path nodes beside shards ÷ best other", ""),
    ("7 a–e", "kept ways ÷ best other", ""),
    ("7 f–j", "path node apart ÷ best other, 10 % changes", "1.45–2.22"),
    ("7 f–j", "path nodes beside shards ÷ best other, 10 % changes", ""),
    ("7 f–j", "kept ways ÷ best other, 10 % changes", ""),
    ("9", "path node apart ÷ best other, 4 names", "1.43"),
    ("9", "path node apart ÷ best other, 12 names", "2.49"),
    ("9", "path nodes beside shards ÷ best other, 4 names", ""),
    ("9", "path nodes beside shards ÷ best other, 8 names", ""),
    ("9", "path nodes beside shards ÷ best other, 12 names", ""),
    ("9", "path nodes beside shards, 12 names ÷ 4 names", "about 1"),
    ("9", "names from which a directory server does more than all names at once", "8"),
    ("10", "path nodes beside shards, ten times the directories", "1.26"),
    ("10", "name by name, ten times the directories", ""),
    ("11", "path node apart, a fifth creates", "falls"),
    ("11", "path nodes beside shards, a fifth creates", "falls"),
    ("11", "cost of a fifth checked in the tree, path node apart", "≤ 1.1 wanted"),
    ("11", "cost of a fifth checked in the tree, path nodes beside shards", "≤ 1.1 wanted"),
    ("11", "cost of a fifth whose group is asked for, path node apart", "≤ 1.1 wanted"),
    ("11", "cost of a fifth whose group is asked for, path nodes beside shards", "≤ 1.1 wanted"),
    ("11", "cost of a fifth whose group is told, path node apart", "≤ 1.1 wanted"),
    ("11", "cost of a fifth whose group is told, path nodes beside shards", "≤ 1.1 wanted"),
    ("11", "cost of a fifth whose group decides, kept ways", "≤ 1.1 wanted"),
    ("11", "cost of a fifth asked of shards, path nodes beside shards", "falls"),
    ("IV-F", "path nodes beside shards, 0.01 % chmods and renames of directories", ""),
    ("IV-F", "path nodes beside shards, 1 % chmods and renames of directories", ""),
];

/// The ratios beside the paper's, and the rates behind them.
pub(super) fn sheets(setup: &Setup, width: u32) -> anyhow::Result<Vec<Sheet>> {
    let servers = if setup.servers.is_empty() { &SERVERS[..] } else { &setup.servers };
    ensure!(servers.iter().all(|&servers| servers >= 2), "a path node on a server of its own needs a second one");
    let title = format!(
        "Looks at paths beside SPMeta's figures; servers of {} cores {} µs apart, one of them the path node's or directory server's where it is apart",
        setup.cores,
        setup.link_ns as f64 / 1e3,
    );
    let columns: Vec<String> = servers.iter().map(|servers| format!("{servers} servers")).collect();
    let mut header = vec!["figure", "ratio", "paper"];
    header.extend(columns.iter().map(String::as_str));
    let (mut ratios, mut rates) = (Sheet::new(title, &header), rates_sheet());
    let mut all = vec![];
    for &servers in servers {
        let lab = Lab { setup, servers, width };
        all.push(ratios_of(&lab, &mut rates));
    }
    for (at, (figure, ratio, paper)) in ROWS.into_iter().enumerate() {
        let mut row = vec![figure.into(), ratio.into(), paper.into()];
        row.extend(all.iter().map(|cells| cells[at].clone()));
        ratios.row(row);
    }
    Ok(vec![ratios, rates])
}

/// One number for each of the rows.
fn ratios_of(lab: &Lab<'_>, sheet: &mut Sheet) -> Vec<Cell> {
    let rates = measure(lab, sheet);
    let usual = |way| rates.of(way, USUAL) / rates.best(USUAL);
    let mixed = |way| rates.mixed(way) / rates.best_mixed();
    let at = |way, depth| rates.of(way, depth) / rates.best(depth);
    let mut all = vec![
        rates.of(Way::Parallel, USUAL) / rates.of(Way::Serial, USUAL),
        rates.of(Way::Central, USUAL) / rates.of(Way::Parallel, USUAL),
    ];
    all.extend([Way::Apart, Way::Beside, Way::Kept].map(usual));
    all.extend([Way::Apart, Way::Beside, Way::Kept].map(mixed));
    all.extend([4, 12].map(|depth| at(Way::Apart, depth)));
    all.extend([4, 8, 12].map(|depth| at(Way::Beside, depth)));
    all.push(rates.of(Way::Beside, 12) / rates.of(Way::Beside, 4));
    let mut all = shown(all);
    all.push(rates.passes().map_or("none".into(), |depth| u64::from(depth).into()));
    all.extend(shown(further(lab)));
    assert_eq!(all.len(), ROWS.len(), "a cell for each row");
    all
}

fn shown(numbers: Vec<f64>) -> Vec<Cell> {
    numbers.into_iter().map(|number| Cell::Number(number, 2)).collect()
}

/// Ratios that need runs of their own: a larger tree, changes, fall-backs.
fn further(lab: &Lab<'_>) -> Vec<f64> {
    let mut all = vec![];
    all.extend([Way::Beside, Way::Serial].map(|way| lab.larger(way)));
    let creates = Shares { create: FIFTH, ..Shares::default() };
    all.extend([Way::Apart, Way::Beside].map(|way| lab.changed(way, creates)));
    for (way, index, why) in [
        (Way::Apart, IndexKind::Mart, FallBack::Checked),
        (Way::Beside, IndexKind::Mart, FallBack::Checked),
        (Way::Apart, IndexKind::Hi, FallBack::Group),
        (Way::Beside, IndexKind::Hi, FallBack::Group),
        (Way::Apart, IndexKind::Hi, FallBack::GroupTold),
        (Way::Beside, IndexKind::Hi, FallBack::GroupTold),
        (Way::Kept, IndexKind::Hi, FallBack::Group),
        (Way::Beside, IndexKind::Hi, FallBack::Shards),
    ] {
        all.push(lab.fall_back(way, index, why));
    }
    all.extend(MOVES.map(|share| {
        let shares = Shares { chmod: share / 2.0, rename: share / 2.0, ..Shares::default() };
        lab.changed(Way::Beside, shares)
    }));
    all
}

/// Measures all ways at all depths, and with changes.
fn measure(lab: &Lab<'_>, sheet: &mut Sheet) -> Rates {
    let (mut by_depth, mut mixed) = (vec![], vec![]);
    for way in Way::ALL {
        let mut model = lab.model(way, IndexKind::Hi, lab.width, &DEPTHS);
        for depth in DEPTHS {
            let measured = model.run_looks(&lab.looks(way, depth), UNTIL);
            by_depth.push((way, depth, rate(&measured)));
            if depth % 4 == 0 {
                note(sheet, lab, way, depth, &measured);
            }
        }
        let looks = Looks { shares: MIXED, ..lab.looks(way, USUAL) };
        mixed.push((way, rate(&model.run_looks(&looks, UNTIL))));
    }
    Rates { by_depth, mixed }
}

fn rates_sheet() -> Sheet {
    let header = [
        "servers",
        "way",
        "names",
        "looks/s",
        "median, µs",
        "p99, µs",
        "messages a look",
        "session's CPU a look, µs",
        "servers with shards busy, %",
        "server apart busy, %",
    ];
    Sheet::new("Looks at paths".to_owned(), &header)
}

fn note(sheet: &mut Sheet, lab: &Lab<'_>, way: Way, depth: u32, measured: &Measured) {
    let looks = measured.of(Kind::Look);
    let each = |sum: f64| sum / looks.count().max(1) as f64;
    let apart = way.path_nodes() == PathNodes::Apart || way.path_nodes() == PathNodes::Central;
    let (shards, others) = measured.utilisation.split_at(usize::from(lab.servers) - usize::from(apart));
    let mean = shards.iter().sum::<f64>() / shards.len() as f64;
    sheet.row(vec![
        u64::from(lab.servers).into(),
        way.word().into(),
        u64::from(depth).into(),
        Cell::Number(rate(measured), 0),
        us(looks.quantile_ns(0.5) as f64),
        us(looks.quantile_ns(0.99) as f64),
        Cell::Number(each(measured.messages as f64), 2),
        Cell::Number(each(measured.sessions_ns as f64) / 1e3, 2),
        Cell::Number(mean * 100.0, 0),
        others.first().map_or("".into(), |busy| Cell::Number(busy * 100.0, 0)),
    ]);
}
