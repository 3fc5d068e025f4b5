//! Endpoints of an injector: the same in any order, and what each case says.

use meshgate_core::readiness::endpoints::{Endpoint, EndpointState, Nodes, Slice, Tally, tally};
use proptest::prelude::*;
use proptest::sample::select;

const NODES: [&str; 4] = ["node-a", "node-b", "node-c", "gone"];

fn endpoint() -> impl Strategy<Value = Endpoint> {
    let condition = || prop::option::of(any::<bool>());
    let address = select(&["10.0.0.1", "10.0.0.2", "10.0.0.3", "fd00::1", "fd00::2"][..]);
    let target = select(&["mesh/a", "mesh/b", "mesh/c"][..]);
    (
        prop::collection::vec(address.prop_map(Box::from), 0..3),
        prop::option::of(target.prop_map(Box::from)),
        prop::option::of(select(&NODES[..]).prop_map(Box::from)),
        (condition(), condition(), condition()),
    )
        .prop_map(
            |(addresses, target, node, (ready, serving, terminating))| Endpoint {
                addresses,
                target,
                node,
                ready,
                serving,
                terminating,
            },
        )
}

fn slices() -> impl Strategy<Value = Vec<Slice>> {
    let endpoints = prop::collection::vec(endpoint(), 0..4);
    let slice = (prop::bool::weighted(0.9), endpoints).prop_map(|(counts, endpoints)| Slice {
        counts,
        managed_by: None,
        endpoints,
    });
    prop::collection::vec(slice, 0..5)
}

fn nodes(lost: [bool; 3]) -> Nodes {
    let mut nodes = Nodes::default();
    for (name, is_lost) in NODES.into_iter().zip(lost) {
        nodes.set(name, is_lost);
    }
    nodes
}

/// Design section 6, for one endpoint.
fn is_usable(endpoint: &Endpoint, lost: [bool; 3]) -> bool {
    let rests = lost.iter().filter(|is_lost| **is_lost).count() * 2 > lost.len();
    let is_lost = |node: &str| {
        NODES
            .iter()
            .zip(lost)
            .find(|(name, _)| **name == node)
            .is_none_or(|(_, is_lost)| is_lost)
    };
    endpoint.ready != Some(false)
        && endpoint.serving != Some(false)
        && endpoint.terminating != Some(true)
        && (rests || !endpoint.node.as_deref().is_some_and(is_lost))
}

/// Entries that share an address or a pod are one endpoint: brought together until nothing
/// changes. Whether each group holds a usable one.
fn groups(slices: &[Slice], lost: [bool; 3]) -> Vec<bool> {
    let mut groups: Vec<Vec<&Endpoint>> = Vec::new();
    let counted = slices.iter().filter(|slice| slice.counts);
    for endpoint in counted.flat_map(|slice| &slice.endpoints) {
        let same = |other: &Endpoint| {
            endpoint
                .addresses
                .iter()
                .any(|address| other.addresses.contains(address))
                || endpoint.target.is_some() && endpoint.target == other.target
        };
        let is_same = |group: &Vec<&Endpoint>| group.iter().any(|other| same(other));
        let (joined, rest): (Vec<_>, Vec<_>) = groups.into_iter().partition(is_same);
        groups = rest;
        groups.push(joined.into_iter().flatten().chain([endpoint]).collect());
    }
    let usable = |group: Vec<&Endpoint>| group.into_iter().any(|one| is_usable(one, lost));
    groups.into_iter().map(usable).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn order_does_not_matter(
        (slices, shuffled) in slices().prop_flat_map(|slices| {
            (Just(slices.clone()), Just(slices).prop_shuffle())
        }),
        turn in any::<prop::sample::Index>(),
        lost in any::<[bool; 3]>(),
    ) {
        let expected = tally(&slices, &nodes(lost));
        prop_assert_eq!(&tally(&shuffled, &nodes(lost)), &expected);
        // Also inside a slice, and the nodes' order of arrival.
        let mut turned = shuffled;
        for slice in &mut turned {
            if !slice.endpoints.is_empty() {
                let by = turn.index(slice.endpoints.len());
                slice.endpoints.rotate_left(by);
            }
        }
        let mut late = Nodes::default();
        for (name, is_lost) in NODES.into_iter().zip(lost).rev() {
            late.set(name, !is_lost);
            late.set("passing", true);
            late.set(name, is_lost);
        }
        late.remove("passing");
        prop_assert_eq!(&late, &nodes(lost));
        prop_assert_eq!(&tally(&turned, &late), &expected);
    }

    #[test]
    fn endpoints_are_counted_once_and_usable_if_any_slice_says_so(
        slices in slices(),
        lost in any::<[bool; 3]>(),
    ) {
        let groups = groups(&slices, lost);
        let counted = tally(&slices, &nodes(lost));
        prop_assert_eq!(counted.total(), groups.len());
        prop_assert_eq!(counted.usable(), groups.iter().filter(|usable| **usable).count());
        let ignored = slices.iter().filter(|slice| !slice.counts).count();
        prop_assert_eq!(counted.ignored_slices, ignored);
        prop_assert_eq!(counted.others().is_empty(), counted.usable() == counted.total());
    }

    #[test]
    fn nodes_count_as_their_last_state(
        events in prop::collection::vec(
            (select(&NODES[..]), prop::option::of(any::<bool>())), 0..20
        ),
    ) {
        let mut nodes = Nodes::default();
        let mut plain = std::collections::BTreeMap::new();
        for (name, event) in events {
            match event {
                Some(is_lost) => {
                    let changes = plain.insert(name, is_lost) != Some(is_lost);
                    prop_assert_eq!(nodes.set(name, is_lost), changes);
                }
                None => prop_assert_eq!(nodes.remove(name), plain.remove(name).is_some()),
            }
        }
        let lost = plain.values().filter(|is_lost| **is_lost).count();
        prop_assert_eq!(nodes.counts(), (plain.len(), lost));
        for name in NODES {
            let expected = !plain.is_empty()
                && lost * 2 <= plain.len()
                && plain.get(name).copied().unwrap_or(true);
            prop_assert_eq!(nodes.is_lost(name), expected);
        }
    }
}

fn at(address: &str) -> Endpoint {
    Endpoint {
        addresses: vec![address.into()],
        ..Endpoint::default()
    }
}

fn slice(endpoints: Vec<Endpoint>) -> Slice {
    Slice {
        counts: true,
        endpoints,
        ..Slice::default()
    }
}

/// `USABLE of TOTAL`, and why the others are not.
fn shown(tally: &Tally) -> String {
    let others = tally.others();
    let why = if others.is_empty() {
        String::new()
    } else {
        format!(" ({others})")
    };
    format!("{} of {}{why}", tally.usable(), tally.total())
}

#[test]
fn conditions() {
    let (yes, no) = (Some(true), Some(false));
    let table = [
        // Case 40: what is not there says nothing bad.
        ((None, None, None), "1 of 1"),
        ((yes, None, None), "1 of 1"),
        ((yes, yes, no), "1 of 1"),
        ((no, None, None), "0 of 1 (1 not ready)"),
        ((no, yes, no), "0 of 1 (1 not ready)"),
        // Case 44: publishNotReadyAddresses makes `ready` true in any state.
        ((yes, no, no), "0 of 1 (1 not serving)"),
        ((yes, yes, yes), "0 of 1 (1 terminating)"),
        ((yes, no, yes), "0 of 1 (1 terminating)"),
        ((None, None, yes), "0 of 1 (1 terminating)"),
    ];
    for ((ready, serving, terminating), expected) in table {
        let endpoint = Endpoint {
            ready,
            serving,
            terminating,
            ..at("10.0.0.1")
        };
        let found = tally([&slice(vec![endpoint.clone()])], &Nodes::default());
        assert_eq!(shown(&found), expected, "{endpoint:?}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn slices_are_one() {
    let not_ready = |address| Endpoint {
        ready: Some(false),
        ..at(address)
    };
    let of = |target: &str, address| Endpoint {
        target: Some(target.into()),
        ..at(address)
    };
    let names = Slice {
        counts: false,
        ..slice(vec![at("mesh.example.com")])
    };
    let table = [
        (vec![], "0 of 0"),
        (vec![slice(vec![])], "0 of 0"),
        // Case 42: the union; an address that moves between slices counts once.
        (
            vec![
                slice(vec![at("10.0.0.1")]),
                slice(vec![not_ready("10.0.0.2")]),
            ],
            "1 of 2 (1 not ready)",
        ),
        (
            vec![slice(vec![at("10.0.0.1")]), slice(vec![at("10.0.0.1")])],
            "1 of 1",
        ),
        // Case 43: usable if any slice says so.
        (
            vec![
                slice(vec![not_ready("10.0.0.1")]),
                slice(vec![at("10.0.0.1")]),
            ],
            "1 of 1",
        ),
        (
            vec![slice(vec![at("10.0.0.1"), not_ready("10.0.0.1")])],
            "1 of 1",
        ),
        // Case 47: dual-stack counts pods; IPv6 alone counts.
        (
            vec![
                slice(vec![of("mesh/a", "10.0.0.1")]),
                slice(vec![of("mesh/a", "fd00::1")]),
            ],
            "1 of 1",
        ),
        (
            vec![slice(vec![
                of("mesh/a", "10.0.0.1"),
                of("mesh/b", "10.0.0.2"),
            ])],
            "2 of 2",
        ),
        (vec![slice(vec![at("fd00::1"), at("fd00::2")])], "2 of 2"),
        // Without a target the address that both have tells.
        (
            vec![
                slice(vec![of("mesh/a", "10.0.0.1")]),
                slice(vec![at("10.0.0.1")]),
            ],
            "1 of 1",
        ),
        // Domain names do not count.
        (vec![names.clone()], "0 of 0"),
        (vec![names, slice(vec![at("10.0.0.1")])], "1 of 1"),
    ];
    for (slices, expected) in table {
        assert_eq!(
            shown(&tally(&slices, &Nodes::default())),
            expected,
            "{slices:?}"
        );
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn nodes_that_are_lost() {
    let on = |node: &str, address| Endpoint {
        node: Some(node.into()),
        ..at(address)
    };
    let endpoints = || {
        vec![
            on("node-a", "10.0.0.1"),
            on("node-b", "10.0.0.2"),
            on("gone", "10.0.0.3"),
            at("10.0.0.4"),
        ]
    };
    let table: [(&[(&str, bool)], &str); 6] = [
        // Where no node is known at all, nodes are not looked at.
        (&[], "4 of 4"),
        (
            &[("node-a", false), ("node-b", false)],
            "3 of 4 (1 on lost node gone)",
        ),
        (
            &[("node-a", false), ("node-b", true)],
            "2 of 4 (2 on lost nodes gone, node-b)",
        ),
        // Half is not more than half.
        (
            &[
                ("node-a", true),
                ("node-b", true),
                ("c", false),
                ("d", false),
            ],
            "1 of 4 (3 on lost nodes gone, node-a, node-b)",
        ),
        // More than half: it is the control plane that is blind.
        (
            &[("node-a", true), ("node-b", true), ("c", false)],
            "4 of 4",
        ),
        (&[("node-a", true)], "4 of 4"),
    ];
    for (known, expected) in table {
        let mut nodes = Nodes::default();
        for (name, is_lost) in known {
            nodes.set(name, *is_lost);
        }
        assert_eq!(
            shown(&tally([&slice(endpoints())], &nodes)),
            expected,
            "{known:?}"
        );
    }
    let mut nodes = Nodes::default();
    nodes.set("other", false);
    let many = (1..=5).map(|number| on(&format!("node-{number}"), "10.0.0.1"));
    let many = many.zip(1..).map(|(one, number)| Endpoint {
        addresses: vec![format!("10.0.0.{number}").into()],
        ..one
    });
    let found = tally([&slice(many.collect())], &nodes);
    assert_eq!(
        shown(&found),
        "0 of 5 (5 on lost nodes node-1, node-2, node-3, …)"
    );
    let states: Vec<_> = found.endpoints.iter().map(|one| &one.state).collect();
    assert_eq!(states[0], &EndpointState::NodeLost("node-1".into()));
}

/// A chain of endpoints, each of which shares an address with the next, from the last to the first.
fn chain(length: usize) -> Vec<Slice> {
    let address = |number: usize| {
        format!(
            "10.{}.{}.{}",
            number >> 16,
            (number >> 8) & 255,
            number & 255
        )
    };
    let alone = (0..length).map(|number| at(&address(number)));
    let links = (1..length).rev().map(|number| Endpoint {
        addresses: vec![address(number).into(), address(number - 1).into()],
        ..Endpoint::default()
    });
    vec![slice(alone.chain(links).collect())]
}

/// A tenant's slices may be of any form. Without short paths in the groups a chain of this length takes a
/// thousand times as long as the same endpoints alone.
#[test]
fn slices_of_any_form_are_counted_in_the_time_of_ordinary_ones() {
    const LENGTH: usize = 30_000;
    let took = |slices: &[Slice], expected: usize| {
        let least = (0..3).map(|_| {
            let start = std::time::Instant::now();
            assert_eq!(tally(slices, &Nodes::default()).total(), expected);
            start.elapsed()
        });
        least.min().unwrap()
    };
    let alone = slice(
        (0..2 * LENGTH)
            .map(|number| at(&number.to_string()))
            .collect(),
    );
    let ordinary = took(&[alone], 2 * LENGTH);
    let hostile = took(&chain(LENGTH), 1);
    assert!(
        hostile < ordinary * 20,
        "{hostile:?}, ordinary ones take {ordinary:?}"
    );
}
