use super::*;

#[test]
fn no_look_up_counts_twice_when_many_requests_report_at_once() {
    let (metrics, made) = (Metrics::default(), AtomicU64::new(0));
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                for _ in 0..50_000 {
                    metrics.live_lookups(made.fetch_add(1, Ordering::SeqCst) + 1);
                    let counted = metrics.live_lookups.get();
                    assert!(counted <= made.load(Ordering::SeqCst));
                }
            });
        }
    });
    metrics.live_lookups(7);
    assert_eq!(metrics.live_lookups.get(), 200_000);
}
