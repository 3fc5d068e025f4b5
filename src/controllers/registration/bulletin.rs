//! What is wrong with the registration, as Events: for whoever looks while nobody answers. Told once it has
//! been so for a while, when it is something else, and again before Events are forgotten. Pure: the clock
//! is passed in.

use std::time::{Duration, Instant};

/// What is wrong for so long is told: at the start much is on its way.
const PATIENCE: Duration = Duration::from_secs(10);
/// What stays wrong is told again: Events are kept for an hour.
const REMINDER: Duration = Duration::from_secs(15 * 60);
/// At most one Event in this time, whatever is said.
const PAUSE: Duration = Duration::from_secs(30);

/// What is remembered.
#[derive(Debug, Default)]
pub(super) struct Bulletin {
    wrong_since: Option<Instant>,
    told: Option<(String, Instant)>,
}

/// What is to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    /// It is not as it should be.
    Wrong,
    /// It is again.
    Right,
}

impl Bulletin {
    /// Whether the state is to be told.
    pub(super) fn news(&mut self, state: &str, is_wrong: bool, now: Instant) -> Option<News> {
        if !is_wrong {
            self.wrong_since = None;
            return self.told.take().map(|_| News::Right);
        }
        let since = *self.wrong_since.get_or_insert(now);
        if now.duration_since(since) < PATIENCE {
            return None;
        }
        if let Some((told, at)) = &self.told {
            let pause = if told == state { REMINDER } else { PAUSE };
            if now.duration_since(*at) < pause {
                return None;
            }
        }
        self.told = Some((state.to_owned(), now));
        Some(News::Wrong)
    }

    /// When there is news, if nothing changes until then.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        let since = self.wrong_since?;
        Some(match &self.told {
            None => since + PATIENCE,
            Some((_, at)) => (*at + REMINDER).max(now + PAUSE),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_wrong_is_told_and_told_again_and_the_end_of_it() {
        let mut bulletin = Bulletin::default();
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        assert_eq!(bulletin.news("fine", false, at(0)), None);
        assert_eq!(bulletin.news("a", true, at(1)), None);
        assert_eq!(bulletin.news("fine", false, at(9)), None, "it was short");
        assert_eq!(bulletin.due(at(9)), None);
        assert_eq!(bulletin.news("a", true, at(10)), None);
        assert_eq!(bulletin.due(at(10)), Some(at(20)));
        assert_eq!(bulletin.news("a", true, at(20)), Some(News::Wrong));
        assert_eq!(bulletin.news("a", true, at(60)), None);
        assert_eq!(bulletin.news("b", true, at(61)), Some(News::Wrong));
        assert_eq!(bulletin.news("c", true, at(62)), None, "not too often");
        assert_eq!(bulletin.news("b", true, at(61 + 900)), Some(News::Wrong));
        assert_eq!(bulletin.news("fine", false, at(1000)), Some(News::Right));
        assert_eq!(bulletin.news("fine", false, at(1001)), None);
    }
}
