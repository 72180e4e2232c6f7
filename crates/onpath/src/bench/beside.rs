//! What is measured in turn: several ways in each round, each compared with the first way of the same round.

use super::posix::Spread;

/// What the ways have shown up to now.
pub(super) struct Beside<W, T> {
    ways: Vec<W>,
    /// With the rounds.
    all: Vec<(W, usize, T)>,
}

impl<W: Copy + PartialEq, T> Beside<W, T> {
    /// Nothing yet.
    pub(super) fn new(ways: &[W]) -> Beside<W, T> {
        Beside { ways: ways.to_vec(), all: vec![] }
    }

    /// The ways in the order of a round: none is always first.
    pub(super) fn order(&self, round: usize) -> Vec<W> {
        let count = self.ways.len();
        self.ways.iter().copied().cycle().skip(round % count).take(count).collect()
    }

    /// What a way has shown in a round.
    pub(super) fn add(&mut self, way: W, round: usize, measured: T) {
        self.all.push((way, round, measured));
    }

    /// A figure of a way.
    pub(super) fn spread(&self, way: W, figure: impl Fn(&T) -> f64) -> Spread {
        Spread::of(self.of(way).map(|(_, measured)| figure(measured)))
    }

    /// The same ÷ that of the first way in the same round.
    pub(super) fn ratio(&self, way: W, figure: impl Fn(&T) -> f64) -> Spread {
        Spread::of(self.of(way).map(|(round, measured)| {
            let mut first = self.of(self.ways[0]).filter(|(of, _)| *of == round);
            figure(measured) / figure(first.next().expect("a round has every way").1)
        }))
    }

    fn of(&self, way: W) -> impl Iterator<Item = (usize, &T)> {
        self.all.iter().filter(move |(of, ..)| *of == way).map(|(_, round, measured)| (*round, measured))
    }
}
