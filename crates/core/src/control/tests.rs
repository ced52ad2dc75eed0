//! What is set for a server: packed, changed, put over what is configured.

use super::*;
use proptest::prelude::*;

const CONFIGURED: Settings = Settings { weight: 5, state: State::Up, max_conns: 10 };

fn states() -> impl Strategy<Value = State> {
    prop_oneof![Just(State::Up), Just(State::Drain), Just(State::Down)]
}

fn set<T: Clone + core::fmt::Debug>(of: impl Strategy<Value = T>) -> impl Strategy<Value = Option<Set<T>>> {
    proptest::option::of((of, any::<bool>()).prop_map(|(value, from_file)| Set { value, from_file }))
}

prop_compose! {
    fn controls()(weight in set(any::<u16>()), state in set(states()), max_conns in set(any::<u32>())) -> Control {
        Control { weight, state, max_conns }
    }
}

prop_compose! {
    fn patches()(
        weight in proptest::option::of(proptest::option::of(any::<u16>())),
        state in proptest::option::of(proptest::option::of(states())),
        max_conns in proptest::option::of(proptest::option::of(any::<u32>())),
    ) -> Patch {
        Patch { weight, state, max_conns }
    }
}

proptest! {
    #[test]
    fn a_word_says_what_was_packed(control in controls()) {
        prop_assert_eq!(Control::unpack(control.pack()), control);
    }

    #[test]
    fn a_patch_changes_what_it_names_and_nothing_else(before in controls(), patch in patches()) {
        let peer = Peer::default();
        prop_assert!(peer.settle(before));
        let (old, new) = peer.set_control(&patch);
        prop_assert_eq!(old, before);
        prop_assert_eq!(new, peer.control());
        match patch.weight {
            None => prop_assert_eq!(new.weight, before.weight),
            Some(wish) => prop_assert_eq!(new.weight, wish.map(|value| Set { value, from_file: false })),
        }
        match patch.state {
            None => prop_assert_eq!(new.state, before.state),
            Some(wish) => prop_assert_eq!(new.state, wish.map(|value| Set { value, from_file: false })),
        }
        match patch.max_conns {
            None => prop_assert_eq!(new.max_conns, before.max_conns),
            Some(wish) => prop_assert_eq!(new.max_conns, wish.map(|value| Set { value, from_file: false })),
        }
    }

    #[test]
    fn no_word_at_all_is_no_panic_and_packs_to_the_same_meaning(word in any::<u64>()) {
        let control = Control::unpack(word);
        prop_assert_eq!(Control::unpack(control.pack()), control);
    }
}

#[test]
fn a_zeroed_record_is_as_configured() {
    let peer = Peer::default();
    assert!(peer.control().is_empty() && !peer.is_settled());
    assert_eq!(peer.control().over(CONFIGURED), CONFIGURED);
}

#[test]
fn weight_zero_drains_unless_the_server_is_down() {
    let control = Control::default().with(&Patch { weight: Some(Some(0)), ..Patch::default() }, false);
    assert_eq!(control.over(CONFIGURED).state, State::Drain);
    assert_eq!(control.state_source(), Source::Api);
    let up = control.with(&Patch { state: Some(Some(State::Up)), ..Patch::default() }, true);
    assert_eq!((up.over(CONFIGURED).state, up.state_source()), (State::Drain, Source::Api));
    assert_eq!(control.over(Settings { state: State::Down, ..CONFIGURED }).state, State::Down);
}

#[test]
fn up_raises_a_server_that_is_configured_down() {
    let control = Control::default().with(&Patch { state: Some(Some(State::Up)), ..Patch::default() }, false);
    assert_eq!(control.over(Settings { state: State::Down, ..CONFIGURED }).state, State::Up);
}

#[test]
fn settling_happens_once_and_not_after_a_change() {
    let (before, peer) =
        (Control::default().with(&Patch { weight: Some(Some(9)), ..Patch::default() }, true), Peer::default());
    peer.set_control(&Patch::CLEAR);
    assert!(!peer.settle(before) && peer.control().is_empty());
    let peer = Peer::default();
    assert!(peer.settle(before) && !peer.settle(Control::default()));
    assert_eq!((peer.control(), peer.control().weight_source()), (before, Source::StateFile));
}

#[test]
fn a_record_that_changes_hands_has_nothing_set() {
    let peer = Peer::default();
    peer.set_control(&Patch { state: Some(Some(State::Down)), ..Patch::default() });
    peer.reset();
    assert!(peer.control().is_empty() && !peer.is_settled());
}

#[test]
fn forgetting_statistics_keeps_what_is_set() {
    let peer = Peer::default();
    peer.set_control(&Patch { state: Some(Some(State::Down)), ..Patch::default() });
    peer.requests.store(7, Ordering::Relaxed);
    peer.forget();
    assert_eq!((peer.requests.load(Ordering::Relaxed), peer.control().state.map(|s| s.value)), (0, Some(State::Down)));
    assert_eq!(peer.generation.load(Ordering::Relaxed), 1, "attempts under way book nothing");
}
