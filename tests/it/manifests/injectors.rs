//! Every injector is told to leave meshgate's own pods alone (cases 66 and 74): by their own marks
//! alone, whatever their namespace says.

use meshgate_core::decision::requirement;
use meshgate_core::injector::{Injectors, PRESETS};
use meshgate_core::view::namespace::NamespaceView;
use meshgate_core::view::pod::PodView;
use meshgate_core::yaml;
use serde_json::{Value, json};

use super::{installed, of_kind, pods};

/// All presets, with what makes them require more switched on.
fn all_presets() -> Injectors {
    let mut list = String::new();
    for (name, _) in PRESETS {
        let options = match name {
            "istio" | "consul" => ", options: {byDefault: true}",
            _ => "",
        };
        list.push_str(&format!("- {{preset: {name}{options}}}\n"));
    }
    let head = "apiVersion: meshgate.io/v1alpha1\nkind: Configuration\ninjectors:\n";
    Injectors::from_yaml("all", format!("{head}{list}").as_bytes()).unwrap()
}

/// A label or an annotation of a namespace.
#[derive(Debug)]
struct Mark {
    is_label: bool,
    key: String,
    value: String,
}

/// Every mark of a namespace that a rule of a preset knows.
fn marks() -> Vec<Mark> {
    let mut marks = Vec::new();
    for (name, text) in PRESETS {
        let documents = yaml::documents(name, text.as_bytes()).unwrap();
        let profile: Value = documents[0].parse().unwrap();
        let rules = profile["rules"].as_array().unwrap();
        let terms = rules
            .iter()
            .flat_map(|rule| rule["when"].as_array().unwrap());
        for term in terms {
            let keys = ["namespaceLabel", "namespaceAnnotation"];
            let Some(place) = keys.into_iter().find(|key| term.get(key).is_some()) else {
                continue;
            };
            let named = term["in"].as_array().into_iter().flatten();
            let values = named.filter_map(Value::as_str).chain(["true"]);
            marks.extend(values.map(|value| Mark {
                is_label: place == "namespaceLabel",
                key: term[place].as_str().unwrap().to_owned(),
                value: value.to_owned(),
            }));
        }
    }
    marks
}

/// Who would require anything of a pod in a namespace with that mark.
fn required(pod: &Value, mark: &Mark, injectors: &Injectors) -> Vec<String> {
    let text = pod.to_string();
    let pod = PodView::read(&text, injectors.keys()).unwrap();
    let one = [(mark.key.as_str(), mark.value.as_str())];
    let (labels, annotations) = if mark.is_label {
        (Some(one), None)
    } else {
        (None, Some(one))
    };
    let namespace = NamespaceView::new(
        "elsewhere",
        labels.into_iter().flatten(),
        annotations.into_iter().flatten(),
        injectors.keys(),
    );
    let requirement = requirement::of(&pod, &namespace, injectors);
    let names = requirement
        .matches
        .iter()
        .map(|claim| claim.name().to_owned());
    names.collect()
}

#[test]
fn no_injector_wants_our_pods_whatever_their_namespace_says() {
    let injectors = all_presets();
    let bare = json!({"metadata": {}, "spec": {"containers": []}});
    let mut seen = std::collections::BTreeSet::new();
    for mark in marks() {
        seen.extend(required(&bare, &mark, &injectors));
        for (whose, pod) in pods(&installed()) {
            let wanted = required(pod, &mark, &injectors);
            assert_eq!(wanted, [""; 0], "{whose} with {mark:?}");
        }
    }
    // By their namespace alone, those would have been.
    let by_namespace = ["consul", "istio", "kuma", "linkerd", "opentelemetry"];
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), by_namespace);
}

/// An injector that is asked about by its namespace's marks is told no there as well, and one that
/// only reads the pod's finds its key there.
#[test]
fn every_injector_finds_its_own_word() {
    let objects = installed();
    for (name, text) in PRESETS {
        let documents = yaml::documents(name, text.as_bytes()).unwrap();
        let profile: Value = documents[0].parse().unwrap();
        let rules = profile["rules"].to_string();
        for (whose, pod) in pods(&objects) {
            let metadata = &pod["metadata"];
            let told = [("podLabel", "labels"), ("podAnnotation", "annotations")];
            let is_told = told.iter().any(|(place, field)| {
                let marks = metadata[field].as_object().unwrap();
                marks
                    .keys()
                    .any(|key| rules.contains(&format!("\"{place}\":\"{key}\"")))
            });
            assert!(is_told, "{whose} does not tell {name}");
        }
    }
}

#[test]
fn the_namespace_says_no_as_well() {
    let injectors = all_presets();
    let objects = installed();
    let metadata = &of_kind(&objects, "Namespace")[0]["metadata"];
    let pairs = |field: &str| -> Vec<(String, String)> {
        let marks = metadata[field].as_object().unwrap();
        let pair = |(key, value): (&String, &Value)| (key.clone(), value.as_str().unwrap().into());
        marks.iter().map(pair).collect()
    };
    let [labels, annotations] = ["labels", "annotations"].map(pairs);
    let namespace = NamespaceView::new(
        "meshgate-system",
        labels.iter().map(|(key, value)| (&**key, &**value)),
        annotations.iter().map(|(key, value)| (&**key, &**value)),
        injectors.keys(),
    );
    let bare = json!({"metadata": {}, "spec": {"containers": []}}).to_string();
    let pod = PodView::read(&bare, injectors.keys()).unwrap();
    let requirement = requirement::of(&pod, &namespace, &injectors);
    let wanted: Vec<_> = requirement
        .matches
        .iter()
        .map(|claim| claim.name())
        .collect();
    // Consul has no word for a namespace.
    assert_eq!(wanted, ["consul"]);
}
