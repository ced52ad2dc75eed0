//! Constants that were tuned, as constants: in the module they are literals that the compiler folds away.
//!
//! With the feature `tuning`, which only the simulator asks for, each is looked up instead, so that one binary can vary
//! them all and show that none stands on a cliff. Their values and reasons stay where they are used.

/// Declares the tuned constants of a module: `const NAME: type = value;` with its reason. One block a module.
///
/// Where such a constant is an argument of a function it stands in [`value`]; operators take it as it is.
#[cfg(not(feature = "tuning"))]
macro_rules! tuned {
    ($($(#[$about:meta])* $seen:vis const $name:ident: $kind:ty = $value:expr;)+) => {
        $($(#[$about])* $seen const $name: $kind = $value;)+
    };
}

/// The same, looked up.
#[cfg(feature = "tuning")]
macro_rules! tuned {
    ($($(#[$about:meta])* $seen:vis const $name:ident: $kind:ty = $value:expr;)+) => {
        $($(#[$about])* $seen const $name: crate::tuning::Tuned<$kind> = {
            static CELL: crate::tuning::Knob =
                crate::tuning::Knob::new(module_path!(), stringify!($name), ($value) as f64);
            crate::tuning::Tuned::new(&CELL)
        };)+
        /// The tuned constants of this module.
        pub(crate) const TUNED: &[&crate::tuning::Knob] = &[$($name.knob()),+];
    };
}

pub(crate) use tuned;

#[cfg(not(feature = "tuning"))]
/// The value of a tuned constant where no operator asks for it.
#[inline(always)]
pub(crate) const fn value<T: Copy>(constant: T) -> T {
    constant
}

#[cfg(feature = "tuning")]
pub use looked_up::{Knob, knobs};
#[cfg(feature = "tuning")]
pub(crate) use looked_up::{Tuned, value};

#[cfg(feature = "tuning")]
mod looked_up {
    use core::cmp::Ordering;
    use core::marker::PhantomData;
    use core::ops::{Add, Div, Mul, Neg, Sub};
    // Not the crate's own atomics: a model checker has nothing to find here.
    use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

    /// A constant that can be turned, for the whole process.
    #[derive(Debug)]
    pub struct Knob {
        module: &'static str,
        /// Its name in the source.
        pub name: &'static str,
        /// What it is in the module.
        pub default: f64,
        bits: AtomicU64,
    }

    impl Knob {
        pub(crate) const fn new(module: &'static str, name: &'static str, default: f64) -> Self {
            Self { module, name, default, bits: AtomicU64::new(default.to_bits()) }
        }

        /// The source file it stands in, without ending.
        pub fn file(&self) -> &'static str {
            self.module.rsplit("::").next().unwrap_or(self.module)
        }

        /// What it is now.
        pub fn get(&self) -> f64 {
            f64::from_bits(self.bits.load(Relaxed))
        }

        /// Turns it; not while anything runs that reads it.
        pub fn set(&self, value: f64) {
            self.bits.store(value.to_bits(), Relaxed);
        }
    }

    /// All tuned constants, in the order of the files.
    pub fn knobs() -> Vec<&'static Knob> {
        let files = [
            crate::attempt::TUNED,
            crate::curve::TUNED,
            crate::evidence::TUNED,
            crate::explore::TUNED,
            crate::group::TUNED,
            crate::params::TUNED,
            crate::probe::TUNED,
            crate::row::TUNED,
            crate::score::TUNED,
            crate::shift::TUNED,
            crate::table::TUNED,
        ];
        files.concat()
    }

    /// A constant of type `T`, looked up whenever it is used.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Tuned<T>(&'static Knob, PhantomData<T>);

    impl<T> Tuned<T> {
        pub(crate) const fn new(knob: &'static Knob) -> Self {
            Self(knob, PhantomData)
        }

        pub(crate) const fn knob(&self) -> &'static Knob {
            self.0
        }
    }

    /// From the common currency of knobs.
    pub(crate) trait Number: Copy {
        fn of(value: f64) -> Self;
    }

    /// The value of a tuned constant where no operator asks for it.
    pub(crate) fn value<T: Number>(constant: Tuned<T>) -> T {
        T::of(constant.0.get())
    }

    macro_rules! operator {
        ($kind:ty: $($of:ident $method:ident),+) => {$(
            impl $of<Tuned<$kind>> for $kind {
                type Output = $kind;
                fn $method(self, other: Tuned<$kind>) -> $kind { $of::$method(self, value(other)) }
            }
            impl $of<$kind> for Tuned<$kind> {
                type Output = $kind;
                fn $method(self, other: $kind) -> $kind { $of::$method(value(self), other) }
            }
            impl $of for Tuned<$kind> {
                type Output = $kind;
                fn $method(self, other: Self) -> $kind { $of::$method(value(self), value(other)) }
            }
        )+};
    }

    macro_rules! number {
        ($($kind:ty),+) => {$(
            impl Number for $kind {
                // Counts are rounded: half of five picks is three.
                fn of(value: f64) -> Self { if <$kind>::MAX as f64 > 1e30 { value as $kind } else { value.round() as $kind } }
            }
            operator!($kind: Add add, Sub sub, Mul mul, Div div);
            impl PartialEq<Tuned<$kind>> for $kind {
                fn eq(&self, other: &Tuned<$kind>) -> bool { *self == value(*other) }
            }
            impl PartialOrd<Tuned<$kind>> for $kind {
                fn partial_cmp(&self, other: &Tuned<$kind>) -> Option<Ordering> { self.partial_cmp(&value(*other)) }
            }
        )+};
    }

    number!(f32, f64, u32, u64, usize);

    impl Neg for Tuned<f64> {
        type Output = f64;
        fn neg(self) -> f64 {
            -value(self)
        }
    }

    impl From<Tuned<f32>> for f64 {
        fn from(constant: Tuned<f32>) -> f64 {
            f64::from(value(constant))
        }
    }
}

#[cfg(all(test, feature = "tuning"))]
mod tests {
    use super::*;

    #[test]
    fn every_knob_has_one_name_and_stands_at_its_default() {
        let all = knobs();
        let names: std::collections::BTreeSet<_> = all.iter().map(|k| (k.file(), k.name)).collect();
        assert_eq!(names.len(), all.len());
        assert!(all.iter().all(|k| k.get() == k.default && k.default > 0.0));
    }

    #[test]
    fn a_turned_knob_is_seen_where_it_is_used() {
        tuned! {
            const PICKS: u64 = 5;
        }
        assert_eq!((2 * PICKS, value(PICKS), 7 > PICKS, TUNED.len()), (10, 5, true, 1));
        PICKS.knob().set(2.5);
        assert_eq!(2 * PICKS, 6);
    }
}
