//! Where things lie in the shared memory: header, worker slots, groups and their events, peers and their ledgers, and the matrix
//! of cells.
//!
//! The only casts from bytes to the core's types are in [`map`]. Everything there is an atomic that is valid when zeroed;
//! no pointer is stored, so that every process of every configuration cycle can use it. Not here: who owns what.

use core::mem::{align_of, size_of};
use core::slice;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use labor_core::events::Events;
use labor_core::ledger::Ledger;
use labor_core::{Cell, Group, Peer};

/// "labor", then a byte for what the rest means.
const MAGIC: u64 = u64::from_be_bytes(*b"labor\0\0\x01");

/// Records are shared by all CPUs: parts start on a cache line.
const LINE: usize = 64;

/// First thing in our part of the zone. Valid when zeroed (and then nobody's).
#[repr(C, align(64))]
pub struct Header {
    magic: AtomicU64,
    build: AtomicU64,
    workers: AtomicU32,
    groups: AtomicU32,
    peers: AtomicU32,
    /// Longest way of a peer's record from its first place ([`labor_core::slots`]).
    pub peer_reach: AtomicU32,
    /// The same for groups.
    pub group_reach: AtomicU32,
    /// When any worker last said that the zone is full, µs.
    pub warned: AtomicU64,
    /// Configurations that have used this memory, the current one included.
    pub configurations: AtomicU64,
    /// Which worker looks after states and histories, and since when it has not said so ([`super::View::keeps`]).
    pub keeper: AtomicU64,
    /// Grows after every change of what is set for a server: workers read that again when it has.
    pub controls: AtomicU64,
    /// What `controls` was when all that was set was last written to the state file.
    pub saved: AtomicU64,
    /// What keys are hashed with, zeros until somebody asks ([`super::View::secret`]).
    pub secret: [AtomicU64; 2],
    /// When a reload copied what is here to other memory, µs; 0 while this is the memory in use.
    pub superseded: AtomicU64,
}

/// The place of one worker process. 0 when free, else what [`crate::worker`] packs.
pub type Owner = AtomicU64;

/// How many of each fit, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Worker slots.
    pub workers: usize,
    /// Servers.
    pub peers: usize,
}

/// So many servers may all be in lists of their own.
const SINGLES: usize = 512;
/// Of more servers, one in so many may be in a list of its own: such configurations have larger lists.
const TOGETHER: usize = 4;

/// Lists for which there is room beside `peers` servers.
pub const fn groups(peers: usize) -> usize {
    if peers <= SINGLES { peers } else { SINGLES + (peers - SINGLES) / TOGETHER }
}

/// Servers for which there must be room, so that there is room for `lists`.
pub const fn peers_for(lists: usize) -> usize {
    if lists <= SINGLES { lists } else { SINGLES.saturating_add((lists - SINGLES).saturating_mul(TOGETHER)) }
}

impl Shape {
    /// Bytes that `self` takes; `None` when no memory is that large.
    pub fn bytes(self) -> Option<usize> {
        let cells = self.workers.checked_mul(self.peers)?.checked_mul(size_of::<Cell>())?;
        self.cells_at()?.checked_add(cells)
    }

    /// The largest shape with `workers` slots in `bytes`; `None` when not even one server fits.
    pub fn fitting(workers: usize, bytes: usize) -> Option<Self> {
        let list = size_of::<Group>() + size_of::<Events>();
        let each = size_of::<Peer>() + size_of::<Ledger>() + workers.checked_mul(size_of::<Cell>())?;
        let free = bytes.checked_sub(Self { workers, peers: 0 }.bytes()?)?;
        // As if each were in a list of its own, then as if only one in four were.
        let few = free / each.checked_add(list)?;
        let many = SINGLES.checked_mul(list - list / TOGETHER).and_then(|most| free.checked_sub(most));
        let many = many.map_or(0, |free| free / (each + list / TOGETHER));
        let peers = if few <= SINGLES { few } else { many };
        // Slots are u32 in the interfaces.
        (peers > 0 && u32::try_from(peers).is_ok()).then_some(Self { workers, peers })
    }

    fn groups_at(self) -> Option<usize> {
        let workers = self.workers.checked_mul(size_of::<Owner>())?;
        size_of::<Header>().checked_add(workers)?.checked_next_multiple_of(LINE)
    }

    fn rings_at(self) -> Option<usize> {
        self.groups_at()?.checked_add(groups(self.peers).checked_mul(size_of::<Group>())?)
    }

    fn peers_at(self) -> Option<usize> {
        self.rings_at()?.checked_add(groups(self.peers).checked_mul(size_of::<Events>())?)
    }

    fn ledgers_at(self) -> Option<usize> {
        self.peers_at()?.checked_add(self.peers.checked_mul(size_of::<Peer>())?)
    }

    fn cells_at(self) -> Option<usize> {
        self.ledgers_at()?.checked_add(self.peers.checked_mul(size_of::<Ledger>())?)
    }
}

// Parts follow each other without padding: their sizes are multiples of the line, cells may follow anything.
const _: () = assert!(size_of::<Header>().is_multiple_of(LINE));
const _: () = assert!(size_of::<Group>().is_multiple_of(LINE));
const _: () = assert!(size_of::<Peer>().is_multiple_of(LINE));
const _: () = assert!(size_of::<Events>().is_multiple_of(LINE) && size_of::<Ledger>().is_multiple_of(LINE));
const _: () = assert!(align_of::<Cell>() <= LINE && align_of::<Group>() <= LINE && align_of::<Peer>() <= LINE);
const _: () = assert!(align_of::<Events>() <= LINE && align_of::<Ledger>() <= LINE);

/// Changes with the version and with every size in the layout: memory of another build is not ours to read.
fn build() -> u64 {
    let records = [size_of::<Group>(), size_of::<Events>(), size_of::<Peer>(), size_of::<Ledger>()];
    let sizes = records.into_iter().chain([size_of::<Header>(), size_of::<Cell>()]).map(|s| s as u64);
    let bytes = env!("CARGO_PKG_VERSION").bytes().map(u64::from).chain(sizes);
    // FNV-1a: any spread will do, nobody attacks it.
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, word| (hash ^ word).wrapping_mul(0x0100_0000_01b3))
}

/// The zone as this process sees it.
#[derive(Clone, Copy)]
pub struct Map {
    /// Sizes, and what all workers share about the zone.
    pub header: &'static Header,
    /// Who owns which row of cells.
    pub workers: &'static [Owner],
    /// Lists of upstreams.
    pub groups: &'static [Group],
    /// What happened in those lists, by the group's slot.
    pub rings: &'static [Events],
    /// Servers.
    pub peers: &'static [Peer],
    /// What is counted of them for people, by the same slot.
    pub ledgers: &'static [Ledger],
    cells: &'static [Cell],
}

impl Map {
    /// The cells of worker slot `worker`, one a server; empty for a slot that is none.
    pub fn row(&self, worker: usize) -> &'static [Cell] {
        let from = worker.saturating_mul(self.peers.len());
        self.cells.get(from..from.saturating_add(self.peers.len())).unwrap_or(&[])
    }

    /// The cells of server `slot`, one a worker slot.
    pub fn column(&self, slot: usize) -> impl Iterator<Item = &'static Cell> + Clone + use<> {
        let stride = self.peers.len().max(1);
        let from = if slot < self.peers.len() { slot } else { self.cells.len() };
        self.cells.get(from..).unwrap_or(&[]).iter().step_by(stride)
    }

    /// Whether no worker has anything in flight at server `slot`.
    pub fn idle(&self, slot: usize) -> bool {
        self.column(slot).all(|c| c.q.load(Ordering::Acquire) == 0 && c.conns.load(Ordering::Acquire) == 0)
    }
}

/// Makes zeroed memory a zone of `shape`. `generation` is where the records' generations start: attempts begun in another
/// mapping must not match.
///
/// # Safety
/// `base` is aligned to 64, `shape.bytes()` bytes from there are mapped, zeroed, shared, and used by nobody else yet.
pub unsafe fn create(base: *mut u8, shape: Shape, generation: u32) -> Option<Map> {
    // SAFETY: the caller vouches for the memory; a header of zeros is valid.
    let header = unsafe { &*base.cast::<Header>() };
    header.build.store(build(), Ordering::Relaxed);
    header.workers.store(u32::try_from(shape.workers).ok()?, Ordering::Relaxed);
    header.groups.store(u32::try_from(groups(shape.peers)).ok()?, Ordering::Relaxed);
    header.peers.store(u32::try_from(shape.peers).ok()?, Ordering::Relaxed);
    header.magic.store(MAGIC, Ordering::Release);
    // SAFETY: as above, and the header now says what the memory holds.
    let map = unsafe { map(base, shape.bytes()?) }?;
    map.peers.iter().for_each(|p| p.generation.store(generation, Ordering::Relaxed));
    Some(map)
}

/// Reads memory as a zone; `None` when it is not one, is of another build, or claims more than `bytes`.
///
/// # Safety
/// `base` is aligned to 64; `bytes` bytes from there are mapped for as long as the result is used, and are only accessed as
/// the types of [`Map`] (all of them atomics) by any process.
pub unsafe fn map(base: *mut u8, bytes: usize) -> Option<Map> {
    if base.is_null() || !base.addr().is_multiple_of(LINE) || bytes < size_of::<Header>() {
        return None;
    }
    // SAFETY: in bounds and aligned as checked; atomics accept every bit pattern.
    let header = unsafe { &*base.cast::<Header>() };
    if header.magic.load(Ordering::Acquire) != MAGIC || header.build.load(Ordering::Acquire) != build() {
        return None;
    }
    let load = |word: &AtomicU32| word.load(Ordering::Acquire) as usize;
    let shape = Shape { workers: load(&header.workers), peers: load(&header.peers) };
    let lists = load(&header.groups);
    if lists != groups(shape.peers) || shape.bytes()? > bytes {
        return None;
    }
    let cells = shape.workers.checked_mul(shape.peers)?;
    // SAFETY: each part lies within `shape.bytes()` (the same sums), is aligned (asserted above), and consists of atomics,
    // for which every bit pattern is valid and which may be shared with writers.
    unsafe {
        Some(Map {
            header,
            workers: slice::from_raw_parts(base.add(size_of::<Header>()).cast(), shape.workers),
            groups: slice::from_raw_parts(base.add(shape.groups_at()?).cast(), lists),
            rings: slice::from_raw_parts(base.add(shape.rings_at()?).cast(), lists),
            peers: slice::from_raw_parts(base.add(shape.peers_at()?).cast(), shape.peers),
            ledgers: slice::from_raw_parts(base.add(shape.ledgers_at()?).cast(), shape.peers),
            cells: slice::from_raw_parts(base.add(shape.cells_at()?).cast(), cells),
        })
    }
}
