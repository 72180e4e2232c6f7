//! The output gate: outputs that must wait until their record is durable, released in order of records.

use onpath_wire::ids::Lsn;
use std::collections::BTreeMap;

/// Held outputs of a process, keyed by the batch they rest on.
#[derive(Debug)]
pub struct OutputGate<T> {
    held: BTreeMap<(Lsn, u64), T>,
    count: u64,
    durable: Lsn,
}

impl<T> OutputGate<T> {
    /// A gate at a journal that is durable up to `durable`.
    pub fn new(durable: Lsn) -> Self {
        OutputGate { held: BTreeMap::new(), count: 0, durable }
    }

    /// Passes the output back if batch `needs` is durable, else holds it.
    pub fn pass(&mut self, needs: Lsn, output: T) -> Option<T> {
        if needs <= self.durable {
            return Some(output);
        }
        self.count += 1;
        self.held.insert((needs, self.count), output);
        None
    }

    /// The journal is durable up to `durable`: the outputs that this releases, in order.
    pub fn advance(&mut self, durable: Lsn) -> Vec<T> {
        self.durable = self.durable.max(durable);
        let rest = self.held.split_off(&(Lsn(self.durable.0 + 1), 0));
        std::mem::replace(&mut self.held, rest).into_values().collect()
    }

    /// Number of held outputs.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// The held outputs, in order.
    pub fn held(&self) -> impl Iterator<Item = &T> {
        self.held.values()
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_leave_when_their_batch_is_durable() {
        let mut gate = OutputGate::new(Lsn(5));
        assert_eq!(gate.pass(Lsn(5), 'a'), Some('a'));
        assert_eq!(gate.pass(Lsn(7), 'c'), None);
        assert_eq!(gate.pass(Lsn(6), 'b'), None);
        assert_eq!(gate.advance(Lsn(6)), ['b']);
        assert_eq!(gate.len(), 1);
        assert_eq!(gate.advance(Lsn(9)), ['c']);
        assert!(gate.is_empty());
    }
}
