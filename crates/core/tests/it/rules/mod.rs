//! The compiled rules against an evaluator written from the format's description.

mod described;
mod worlds;

use std::sync::LazyLock;

use meshgate_core::decision::requirement;
use meshgate_core::injector::rule::Outcome;
use meshgate_core::injector::{Injectors, PRESETS};
use meshgate_core::view::namespace::NamespaceView;
use meshgate_core::view::pod::PodView;
use meshgate_core::yaml::Document;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

use self::described::{Map, Said, World, list, naive};
use self::worlds::{lay_over, picks, rule, settings, world};

fn compiled(injectors: &Injectors, world: &World) -> Said {
    let map = |place| world.keys.get(place).cloned().unwrap_or_default();
    let pod = json!({
        "metadata": {"labels": map("podLabel"), "annotations": map("podAnnotation")},
    })
    .to_string();
    let pod = PodView::read(&pod, injectors.keys()).unwrap();
    let (labels, annotations) = (map("namespaceLabel"), map("namespaceAnnotation"));
    let texts = |map: &Map| -> Vec<(String, String)> {
        map.iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    };
    let (labels, annotations) = (texts(&labels), texts(&annotations));
    let view = NamespaceView::new(
        &world.namespace,
        labels.iter().map(|(key, value)| (&**key, &**value)),
        annotations.iter().map(|(key, value)| (&**key, &**value)),
        injectors.keys(),
    );
    let requirement = requirement::of(&pod, &view, injectors);
    let claims = requirement.matches.iter().map(|matched| {
        let then = match matched.rule.then {
            Outcome::Required => "required",
            Outcome::NotRequired => "notRequired",
            Outcome::Invalid => "invalid",
            Outcome::OptOut => "opts out",
        };
        assert_eq!(matched.is_invalid(), then == "invalid");
        assert_eq!(
            injectors.get(matched.number).unwrap().profile.name,
            matched.name()
        );
        let instance = matched.instance().map(str::to_owned);
        (
            matched.name().to_owned(),
            matched.rule.number,
            then.to_owned(),
            instance,
        )
    });
    let warnings = requirement.warnings.iter().map(|warning| {
        let text = warning.rule.warning(&warning.values).unwrap();
        (warning.injector.profile.name.clone(), text.into_owned())
    });
    Said {
        claims: claims.collect(),
        warnings: warnings.collect(),
        opted_out: !requirement.opt_outs.is_empty(),
    }
}

fn parse(injectors: &[Value]) -> Result<Injectors, String> {
    let configuration = json!({
        "apiVersion": "meshgate.io/v1alpha1",
        "kind": "Configuration",
        "injectors": injectors,
    });
    // JSON is YAML, and texts are quoted in it.
    Injectors::from_yaml("test.yaml", configuration.to_string().as_bytes())
        .map_err(|error| error.to_string())
}

/// The files of the presets, in their order.
static FILES: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let read = |(name, text)| Document::whole(name, text).parse().unwrap();
    PRESETS.into_iter().map(read).collect()
});

/// A profile of those rules that the parser takes after the ones before them.
fn user_profile(name: &str, rules: Vec<Value>, extra: bool, settings: &Value) -> Option<Value> {
    let mut profile = json!({
        "name": name,
        "service": {"namespace": "own", "name": "own"},
        "instances": {
            "webhookLabels": ["example.com/rev"],
            "fallback": {"namespace": "own", "name": "own-{instance}"},
        },
        "options": {"extra": extra},
        "rules": [],
        "injected": [{"sidecar": "own"}],
    });
    lay_over(&mut profile, settings);
    for rule in rules {
        let mut longer = profile.clone();
        let more = [list(&profile["rules"]), &[rule]].concat();
        longer["rules"] = json!(more);
        if parse(std::slice::from_ref(&longer)).is_ok() {
            profile = longer;
        }
    }
    (!list(&profile["rules"]).is_empty()).then_some(profile)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn presets_agree_with_their_description(
        settings in prop::collection::vec(settings(), PRESETS.len()),
        switches in any::<[bool; 4]>(),
        worlds in prop::collection::vec((picks(), any::<Index>()), 150),
    ) {
        let [istio, first, no_init, consul] = switches;
        let mut entries = Vec::new();
        let mut profiles = Vec::new();
        for (((name, _), file), mut over) in PRESETS.into_iter().zip(&*FILES).zip(settings) {
            match name {
                "istio" => over["options"] =
                    json!({"byDefault": istio, "podRevisionFirst": first, "noInit": no_init}),
                "consul" => over["options"] = json!({"byDefault": consul}),
                _ => {}
            }
            let mut profile = file.clone();
            lay_over(&mut profile, &over);
            profiles.push(profile);
            over["preset"] = json!(name);
            entries.push(over);
        }
        let injectors = parse(&entries).unwrap();
        for (picks, namespace) in worlds {
            // One preset's keys, or those of all.
            let one = usize::from(picks.first().map_or(0, |pick| pick.change)) % (2 * PRESETS.len());
            let about = profiles.get(one).map_or(&profiles[..], std::slice::from_ref);
            let world = world(about, &picks, namespace);
            prop_assert_eq!(compiled(&injectors, &world), naive(&profiles, &world), "{:?}", world);
        }
    }

    #[test]
    fn profiles_of_users_agree_with_their_description(
        rules in prop::collection::vec(prop::collection::vec(rule(), 1..6), 2),
        extra in any::<[bool; 2]>(),
        settings in prop::collection::vec(settings(), 2),
        worlds in prop::collection::vec((picks(), any::<Index>()), 150),
    ) {
        let names = ["one", "two"].into_iter().zip(rules).zip(extra).zip(settings);
        let profiles: Vec<Value> = names
            .filter_map(|(((name, rules), extra), settings)| {
                user_profile(name, rules, extra, &settings)
            })
            .collect();
        prop_assume!(!profiles.is_empty());
        let injectors = parse(&profiles).unwrap();
        for (picks, namespace) in worlds {
            let world = world(&profiles, &picks, namespace);
            prop_assert_eq!(compiled(&injectors, &world), naive(&profiles, &world), "{:?}", world);
        }
    }
}
