//! The policies as they enforce, and what a person reads.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, stream};
use meshgate_core::injector::rule::Outcome;
use meshgate_core::render::Settings;
use serde_json::json;

use super::verdicts::{self, Alone};
use super::{World, entry, presets};
use crate::lab::fidelity::marks::{Marks, Vocabulary};
use crate::lab::fidelity::pairs::{Known, Namespace, Pod, containers};
use crate::lab::fidelity::{IN_FLIGHT, pool};
use crate::support::figures;

/// An injector, and whether a value is unknown to it; else its sidecar is missing.
type Kind = (String, bool);

impl World {
    /// The policies as they enforce: pods marked for one injector at a time, until each kind of
    /// refusal was met, as a person sees it.
    pub(super) async fn refused(&mut self, settings: &Settings) {
        let policies = verdicts::enforce(&self.lab, &self.all, settings).await;
        let alone: Vec<Alone> = presets().map(|name| Alone::new(&entry(name, ""))).collect();
        let round = (self.scale.pairs / 8).max(alone.len() * 20);
        let mut kinds = BTreeMap::new();
        let mut count = 0;
        while !(self.is_complete(&kinds) && count >= 2 * round) {
            assert!(
                count < 20 * round,
                "{}, only {kinds:#?}",
                self.scale.origin()
            );
            let places = self.places(&alone).await;
            for (kind, sentence) in self.denied(&alone, &places, round).await {
                kinds.insert(kind, sentence);
            }
            count += round;
        }
        figures(&format!(
            "fidelity: policies that enforce {count} pairs, 0 differences, {} kinds of refusal; {}",
            kinds.len(),
            self.scale.origin()
        ));
        for sentence in kinds.values() {
            figures(&format!("fidelity: {sentence}"));
        }
        verdicts::are_well_typed(&self.lab, &policies).await;
    }

    /// Namespaces marked for one injector each, and what pods there may be like.
    async fn places(&mut self, alone: &[Alone]) -> Vec<(Namespace, Vocabulary, Vec<Known>)> {
        let mut places = Vec::new();
        for (number, one) in alone.iter().cycle().take(alone.len() * 6).enumerate() {
            let vocabulary = Vocabulary::with_sets(&one.injectors, &[]);
            let marks = vocabulary.namespace(&mut self.draw);
            let name = format!("alone-{number}");
            self.lab.ensure_namespace(&name).await;
            pool::unmark(&self.lab, &name).await;
            let change = json!({"metadata": marks.metadata(&name)});
            let marks = Marks::of(&pool::patch(&self.lab, &name, &change).await);
            let names = containers(&one.injectors);
            places.push((Namespace { name, marks }, vocabulary, names));
        }
        pool::settled(&self.lab).await;
        places
    }

    /// Tries pods there; what was said, by kind.
    async fn denied(
        &mut self,
        alone: &[Alone],
        places: &[(Namespace, Vocabulary, Vec<Known>)],
        count: usize,
    ) -> Vec<(Kind, String)> {
        let pairs = (0..count).map(|number| {
            let (namespace, vocabulary, names) = self.draw.pick(places);
            (
                namespace,
                Pod::with(number, vocabulary, names, &mut self.draw),
            )
        });
        let pairs: Vec<(&Namespace, Pod)> = pairs.collect();
        let this = &*self;
        let tried = stream::iter(&pairs).map(async |(namespace, pod)| {
            let (answer, json) = this.tried(namespace, pod).await;
            let pair = (*namespace, pod, json.as_str());
            let [_, refusing] = verdicts::passing_and_refusing(alone, pair);
            let denied = verdicts::denying(&answer);
            let is_same = match denied {
                Some((policy, _)) => refusing.contains(policy),
                None => answer.is_allowed() && refusing.is_empty(),
            };
            let origin = this.scale.origin();
            assert!(
                is_same,
                "{origin}; check: {refusing:?}, {answer:?}; {namespace:?}; {json}"
            );
            denied.map(|(policy, sentence)| {
                let (injector, _) = policy.split_once('.').unwrap();
                assert_eq!(
                    verdicts::illegible(sentence, (injector, &namespace.name)),
                    None
                );
                let kind = (injector.to_owned(), sentence.contains("does not know"));
                (kind, sentence.to_owned())
            })
        });
        let found: Vec<Option<(Kind, String)>> = tried.buffer_unordered(IN_FLIGHT).collect().await;
        found.into_iter().flatten().collect()
    }

    /// Whether every kind of refusal that the presets have was met, and no other.
    fn is_complete(&self, kinds: &BTreeMap<Kind, String>) -> bool {
        let wanted = self.all.iter().flat_map(|one| {
            let outcomes = [(Outcome::Required, false), (Outcome::Invalid, true)];
            let is_there = |outcome| one.active_rules().any(|rule| rule.then == outcome);
            let there = outcomes
                .into_iter()
                .filter(move |(outcome, _)| is_there(*outcome));
            there.map(|(_, is_invalid)| (one.profile.name.clone(), is_invalid))
        });
        let wanted: BTreeSet<Kind> = wanted.collect();
        let met: BTreeSet<Kind> = kinds.keys().cloned().collect();
        assert!(met.is_subset(&wanted), "{kinds:#?}");
        met == wanted
    }
}
