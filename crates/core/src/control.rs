//! What somebody has set at run time for one server: weight, state and `max_conns` in place of the configured values.
//!
//! All three are packed into one word of [`Peer`], so that one request's fields apply together or not at all, in every
//! worker, and no process that dies can leave half of them. Not here: who may set them and where they are kept on disk.

use crate::peer::Peer;
use crate::sync::Ordering;

/// Largest weight that can be set: nginx's own interfaces stop there.
pub const MOST_WEIGHT: u32 = 65_535;

/// Whether a server gets new requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// It does.
    Up = 1,
    /// Only those of sessions that belong to it.
    Drain = 2,
    /// None.
    Down = 3,
}

impl State {
    /// The state's name as interfaces show and read it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Drain => "drain",
            Self::Down => "down",
        }
    }

    /// The state of that name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Up, Self::Drain, Self::Down].into_iter().find(|state| state.name() == name)
    }
}

/// Where a value comes from, the strongest last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// The configuration.
    #[default]
    Configuration,
    /// A file that remembers what was set before nginx was started.
    StateFile,
    /// Set since.
    Api,
}

impl Source {
    /// The source's name as status pages show it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Configuration => "configuration",
            Self::StateFile => "state_file",
            Self::Api => "api",
        }
    }
}

/// A value that was set, and by whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Set<T> {
    /// The value.
    pub value: T,
    /// Whether it was read from the state file.
    pub from_file: bool,
}

/// What is set for one server; nothing by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// Weight, 0 to [`MOST_WEIGHT`]; 0 drains.
    pub weight: Option<Set<u16>>,
    /// State.
    pub state: Option<Set<State>>,
    /// Most connections over all workers; 0 for no limit.
    pub max_conns: Option<Set<u32>>,
}

/// One request's wishes: for each field nothing, back to the configured value (`Some(None)`), or a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    /// Weight.
    pub weight: Option<Option<u16>>,
    /// State.
    pub state: Option<Option<State>>,
    /// Most connections.
    pub max_conns: Option<Option<u32>>,
}

impl Patch {
    /// Everything back to the configuration.
    pub const CLEAR: Self = Self { weight: Some(None), state: Some(None), max_conns: Some(None) };
}

/// What a server is to be: as configured, or with what is set put over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Weight; 0 drains.
    pub weight: u32,
    /// State, with what the weight says in it: a server of weight 0 that is up drains.
    pub state: State,
    /// Most connections; 0 for no limit.
    pub max_conns: u64,
}

// The word: bits 0–15 weight, 16 and 17 weight set and from the file; 18–19 state (0 not set), 20 from the file; 21 and 22
// max_conns set and from the file, 24–55 its value; 63 settled. All zero is nothing set, and not settled.
const WEIGHT: (u64, u64) = (1 << 16, 1 << 17);
const STATE_AT: u32 = 18;
const STATE_FROM_FILE: u64 = 1 << 20;
const MAX_CONNS: (u64, u64) = (1 << 21, 1 << 22);
const MAX_CONNS_AT: u32 = 24;
/// Somebody has looked for what was set for this server before its record was made ([`Peer::settle`]).
const SETTLED: u64 = 1 << 63;

impl Control {
    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// With the wishes of `patch` fulfilled.
    pub fn with(self, patch: &Patch, from_file: bool) -> Self {
        fn one<T: Copy>(old: Option<Set<T>>, wish: Option<Option<T>>, from_file: bool) -> Option<Set<T>> {
            wish.map_or(old, |value| value.map(|value| Set { value, from_file }))
        }
        Self {
            weight: one(self.weight, patch.weight, from_file),
            state: one(self.state, patch.state, from_file),
            max_conns: one(self.max_conns, patch.max_conns, from_file),
        }
    }

    /// Marks everything set as read from the file.
    pub fn from_file(self) -> Self {
        fn one<T>(set: Option<Set<T>>) -> Option<Set<T>> {
            set.map(|set| Set { from_file: true, ..set })
        }
        Self { weight: one(self.weight), state: one(self.state), max_conns: one(self.max_conns) }
    }

    /// What a server that is configured as `configured` is to be.
    pub fn over(&self, configured: Settings) -> Settings {
        let weight = self.weight.map_or(configured.weight, |set| u32::from(set.value));
        let state = self.state.map_or(configured.state, |set| set.value);
        Settings {
            weight,
            state: if weight == 0 && state == State::Up { State::Drain } else { state },
            max_conns: self.max_conns.map_or(configured.max_conns, |set| u64::from(set.value)),
        }
    }

    /// Where the weight comes from.
    pub fn weight_source(&self) -> Source {
        source(self.weight)
    }

    /// Where the state comes from: that of a server which drains for its weight, from where the weight does.
    pub fn state_source(&self) -> Source {
        let by_weight = self.weight.is_some_and(|set| set.value == 0);
        match self.state {
            Some(set) if set.value != State::Up || !by_weight => source(self.state),
            _ if by_weight => source(self.weight),
            _ => Source::Configuration,
        }
    }

    /// Where `max_conns` comes from.
    pub fn max_conns_source(&self) -> Source {
        source(self.max_conns)
    }

    /// As the word of [`Peer`], settled.
    pub(crate) fn pack(&self) -> u64 {
        let mut word = SETTLED;
        let flags = |(set, file): (u64, u64), from_file: bool| set | if from_file { file } else { 0 };
        if let Some(set) = self.weight {
            word |= u64::from(set.value) | flags(WEIGHT, set.from_file);
        }
        if let Some(set) = self.state {
            word |= (set.value as u64) << STATE_AT | flags((0, STATE_FROM_FILE), set.from_file);
        }
        if let Some(set) = self.max_conns {
            word |= u64::from(set.value) << MAX_CONNS_AT | flags(MAX_CONNS, set.from_file);
        }
        word
    }

    /// Out of the word of [`Peer`].
    pub(crate) fn unpack(word: u64) -> Self {
        let has = |bit: u64| word & bit != 0;
        let state = match word >> STATE_AT & 3 {
            1 => Some(State::Up),
            2 => Some(State::Drain),
            3 => Some(State::Down),
            _ => None,
        };
        Self {
            weight: has(WEIGHT.0).then(|| Set { value: word as u16, from_file: has(WEIGHT.1) }),
            state: state.map(|value| Set { value, from_file: has(STATE_FROM_FILE) }),
            max_conns: has(MAX_CONNS.0)
                .then(|| Set { value: (word >> MAX_CONNS_AT) as u32, from_file: has(MAX_CONNS.1) }),
        }
    }
}

fn source<T>(set: Option<Set<T>>) -> Source {
    match set {
        None => Source::Configuration,
        Some(set) if set.from_file => Source::StateFile,
        Some(_) => Source::Api,
    }
}

impl Peer {
    /// What is set for the server.
    pub fn control(&self) -> Control {
        Control::unpack(self.control.load(Ordering::Acquire))
    }

    /// Fulfils `patch`, all of it at once; what was set before and what is now.
    pub fn set_control(&self, patch: &Patch) -> (Control, Control) {
        let mut word = self.control.load(Ordering::Acquire);
        loop {
            let old = Control::unpack(word);
            let new = old.with(patch, false);
            match self.control.compare_exchange(word, new.pack(), Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return (old, new),
                Err(other) => word = other,
            }
        }
    }

    /// Whether what was set for the server before it had this record has been looked for.
    pub fn is_settled(&self) -> bool {
        self.control.load(Ordering::Acquire) & SETTLED != 0
    }

    /// Gives a new record what was set for its server before; does nothing when somebody has done so. Returns whether
    /// it was this call.
    pub fn settle(&self, before: Control) -> bool {
        self.control.compare_exchange(0, before.pack(), Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
