//! A tournament: the least of many keys, and whose it is, kept up to date as single keys change.
//!
//! Sixteen children a node: three or four levels for ten thousand keys, and a change that neither was nor becomes a node's
//! least ends there, so that most changes cost one comparison. What a key means is the caller's business.

/// Children per node: two cache lines of keys.
const FAN: usize = 16;

/// The key of who is out of the tournament.
pub(crate) const OUT: u64 = u64::MAX;

/// See the module. `levels[0]` are the keys themselves, the last level is the least of all.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    levels: Vec<Vec<u64>>,
}

impl Tree {
    /// `count` keys, all [`OUT`].
    pub(crate) fn resize(&mut self, count: usize) {
        self.levels.clear();
        let mut width = count;
        self.levels.push(vec![OUT; width]);
        while width > 1 {
            width = width.div_ceil(FAN);
            self.levels.push(vec![OUT; width]);
        }
    }

    /// The key of `i`.
    pub(crate) fn key(&self, i: usize) -> u64 {
        self.levels.first().and_then(|keys| keys.get(i)).copied().unwrap_or(OUT)
    }

    /// Changes the key of `i`.
    pub(crate) fn set(&mut self, i: usize, key: u64) {
        let (mut at, mut key) = (i, key);
        let mut children: Option<&[u64]> = None;
        let mut before = OUT;
        for level in &mut self.levels {
            let Some(place) = level.get_mut(at) else { return };
            let least = match children {
                None => key,
                Some(_) if key <= *place => key,
                // Somebody else is this node's least.
                Some(_) if before != *place => return,
                Some(keys) => keys.get(at * FAN..).unwrap_or_default().iter().take(FAN).copied().fold(OUT, u64::min),
            };
            before = core::mem::replace(place, least);
            if before == least {
                return;
            }
            key = least;
            children = Some(level);
            at /= FAN;
        }
    }

    /// Who has the least key, and the key; of several the first.
    pub(crate) fn least(&self) -> Option<(usize, u64)> {
        let least = *self.levels.last()?.first()?;
        if least == OUT {
            return None;
        }
        let mut at = 0;
        for level in self.levels.iter().rev().skip(1) {
            let children = level.get(at * FAN..)?;
            at = at * FAN + children.iter().take(FAN).position(|&key| key == least)?;
        }
        Some((at, least))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn the_least_is_that_of_a_search_through_all() {
        for count in [0, 1, 2, 15, 16, 17, 255, 256, 257, 5000] {
            let mut tree = Tree::default();
            tree.resize(count);
            let mut keys = vec![OUT; count];
            let mut rng = Rng::new(count as u64);
            for _ in 0..4000 {
                if count > 0 {
                    let i = (rng.unit() * count as f64) as usize;
                    keys[i] = if rng.unit() < 0.2 { OUT } else { rng.next_u64() % 64 };
                    tree.set(i, keys[i]);
                    assert_eq!(tree.key(i), keys[i]);
                }
                let least = keys.iter().copied().min().filter(|&key| key != OUT);
                let first = least.and_then(|least| keys.iter().position(|&key| key == least));
                assert_eq!(tree.least(), first.zip(least));
            }
        }
    }

    #[test]
    fn nobody_is_beyond_the_end() {
        let mut tree = Tree::default();
        tree.set(3, 1);
        assert_eq!((tree.least(), tree.key(3)), (None, OUT));
        tree.resize(2);
        tree.set(2, 1);
        assert_eq!(tree.least(), None);
    }
}
