//! Faults in any order.

use std::time::Duration;

use proptest::prelude::*;
use tokio::time::sleep;

use super::Followed;
use super::server::{Reply, event, status, three};

#[derive(Debug, Clone)]
enum Act {
    Set(u8, bool),
    Delete(u8),
    Compact,
    HangUp,
    Wait(u16),
    Fault(Reply),
}

fn act() -> impl Strategy<Value = Act> {
    let fault = prop_oneof![
        (0_usize..6).prop_map(Reply::Cut),
        (0_usize..6).prop_map(Reply::Silent),
        prop_oneof![Just(410), Just(422), Just(429), Just(500), Just(403)]
            .prop_map(|code| Reply::Status(code, 1)),
        Just(Reply::Never),
        Just(Reply::Broken),
        Just(Reply::Lines(Vec::new())),
        Just(Reply::Lines(vec![event("ERROR", &status(410, 0))])),
        Just(Reply::Lines(vec!["no event\n".to_owned()])),
    ];
    prop_oneof![
        4 => (0_u8..6, any::<bool>()).prop_map(|(name, inject)| Act::Set(name, inject)),
        2 => (0_u8..6).prop_map(Act::Delete),
        1 => Just(Act::Compact),
        1 => Just(Act::HangUp),
        2 => (0_u16..30_000).prop_map(Act::Wait),
        3 => fault.prop_map(Act::Fault),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever fails, in whatever order: the view is what the cluster is as soon as nothing fails.
    #[test]
    fn the_view_is_the_cluster_in_the_end(
        acts in prop::collection::vec(act(), 0..40),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let server = three([]);
        let _inside = runtime.enter();
        runtime.block_on(Followed::new(server).run(async |followed| {
            let server = &followed.server;
            for act in acts {
                match act {
                    Act::Set(name, inject) => {
                        server.set(&format!("n{name}"), inject.then_some("enabled"));
                    }
                    Act::Delete(name) => server.delete(&format!("n{name}")),
                    Act::Compact => server.compact(),
                    Act::HangUp => server.hang_up(),
                    Act::Wait(milliseconds) => {
                        sleep(Duration::from_millis(milliseconds.into())).await;
                    }
                    Act::Fault(reply) => server.0.lock().script.push_back(reply),
                }
            }
            server.0.lock().script.clear();
            followed.agrees().await;
            sleep(Duration::from_secs(200)).await;
            assert!(followed.is_right() && followed.is_current());
        }));
    }
}
