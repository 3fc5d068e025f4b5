//! Where injectors are found, by their webhook configurations.

use std::collections::BTreeMap;

use super::{Client, Installation, WebhookConfiguration, WebhookEntry, instances, locate};
use crate::decision::tests::injectors;
use crate::injector::profile::{Profile, ServiceName};

type Texts<'t> = &'t [(&'t str, &'t str)];
type Configurations = BTreeMap<String, WebhookConfiguration>;

fn profile(list: &str) -> Profile {
    injectors(list).get(0).unwrap().profile.clone()
}

fn service(text: &str) -> ServiceName {
    let (namespace, name) = text.split_once('/').unwrap();
    ServiceName {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

/// `URL`, or `NAMESPACE/NAME` of a Service and maybe `:PATH`.
fn client(text: &str) -> Client {
    if text.starts_with("https://") {
        return Client::Url(text.to_owned());
    }
    let (name, path) = match text.split_once(':') {
        Some((name, path)) => (name, Some(path.to_owned())),
        None => (text, None),
    };
    Client::Service {
        service: service(name),
        port: 443,
        path,
    }
}

/// Configurations by labels and entries.
fn cluster(list: &[(Texts<'_>, Texts<'_>)]) -> Configurations {
    let owned = |text: &str| text.to_owned();
    let one = |(labels, entries): &(Texts<'_>, Texts<'_>)| WebhookConfiguration {
        labels: labels
            .iter()
            .map(|(key, value)| (owned(key), owned(value)))
            .collect(),
        entries: entries
            .iter()
            .map(|(name, called)| WebhookEntry {
                name: owned(name),
                client: client(called),
            })
            .collect(),
    };
    (0..)
        .map(|number: usize| format!("configuration-{number}"))
        .zip(list.iter().map(one))
        .collect()
}

/// `NAMESPACE/NAME`, with `?` where several entries name different Services.
fn found(profile: &Profile, instance: Option<&str>, known: Option<&Configurations>) -> String {
    match locate(profile, instance, known) {
        Installation::At {
            service, ambiguous, ..
        } => format!("{service}{}", if ambiguous { "?" } else { "" }),
        Installation::NotInstalled => "not installed".to_owned(),
        Installation::NoInstance => "no such instance".to_owned(),
    }
}

const ENTRY: &str = "linkerd-proxy-injector.linkerd.io";

#[test]
fn an_injector_without_instances_is_found_by_its_entry() {
    let linkerd = profile("- preset: linkerd\n");
    let other: (&[_], &[_]) = (&[], &[("validate.example.com", "a/b")]);
    let table: [(Configurations, &str); 8] = [
        (cluster(&[]), "not installed"),
        (cluster(&[other]), "not installed"),
        (
            cluster(&[other, (&[], &[(ENTRY, "mesh/l5d-injector")])]),
            "mesh/l5d-injector",
        ),
        (
            cluster(&[(&[], &[("x-linkerd-proxy-injector.linkerd.io", "a/b")])]),
            "not installed",
        ),
        (
            cluster(&[(&[], &[(ENTRY, "a/b"), (ENTRY, "a/b:/path")])]),
            "a/b",
        ),
        (
            cluster(&[(&[], &[(ENTRY, "a/b")]), (&[], &[(ENTRY, "c/d")])]),
            "a/b?",
        ),
        (
            cluster(&[(
                &[],
                &[(ENTRY, "a/b"), (ENTRY, "linkerd/linkerd-proxy-injector")],
            )]),
            "linkerd/linkerd-proxy-injector",
        ),
        // Behind a URL there is no Service to look at but the profile's.
        (
            cluster(&[(&[], &[(ENTRY, "https://mesh.example.com/")])]),
            "linkerd/linkerd-proxy-injector",
        ),
    ];
    assert_eq!(
        found(&linkerd, None, None),
        "linkerd/linkerd-proxy-injector"
    );
    for (known, expected) in table {
        assert_eq!(found(&linkerd, None, Some(&known)), expected, "{known:?}");
    }
}

#[test]
fn how_an_entry_calls_is_told() {
    let linkerd = profile("- preset: linkerd\n");
    let url = "https://mesh.example.com/";
    for called in [url, "a/b:/path"] {
        let known = cluster(&[(&[], &[(ENTRY, called)])]);
        let Installation::At { client: found, .. } = locate(&linkerd, None, Some(&known)) else {
            panic!("{called} is not found");
        };
        assert_eq!(found, Some(client(called)));
    }
    let Installation::At { client, .. } = locate(&linkerd, None, None) else {
        panic!("not found where nothing is known");
    };
    assert_eq!(client, None);
}

#[test]
fn a_common_name_is_narrowed_by_its_path() {
    let otel = profile("- preset: opentelemetry\n");
    let mine = "https://mesh.example.com/mutate-v1-pod";
    let table = [
        ("otel/webhook:/mutate-v1-pod", "otel/webhook"),
        ("jobs/webhook:/mutate-v1-job", "not installed"),
        ("jobs/webhook", "not installed"),
        ("jobs/webhook:/x/mutate-v1-pod", "not installed"),
        (
            mine,
            "opentelemetry-operator-system/opentelemetry-operator-webhook-service",
        ),
        (
            "https://mesh.example.com:8443/mutate-v1-pod?cluster=a",
            "opentelemetry-operator-system/opentelemetry-operator-webhook-service",
        ),
        (
            "https://mesh.example.com/other/mutate-v1-pod",
            "not installed",
        ),
        ("https://mesh.example.com", "not installed"),
    ];
    for (called, expected) in table {
        let known = cluster(&[(&[], &[("mpod.kb.io", called)])]);
        assert_eq!(found(&otel, None, Some(&known)), expected, "{called}");
    }
    let root = profile("- preset: opentelemetry\n  path: /\n");
    for called in [
        "a/b",
        "a/b:/",
        "https://mesh.example.com",
        "https://mesh.example.com/",
    ] {
        let known = cluster(&[(&[], &[("mpod.kb.io", called)])]);
        assert_ne!(
            found(&root, None, Some(&known)),
            "not installed",
            "{called}"
        );
    }
}

#[test]
fn a_star_stands_for_any_beginning() {
    let consul = profile("- preset: consul\n");
    let end = "-connect-injector.consul.hashicorp.com";
    let table = [
        (format!("release{end}"), "a/b"),
        (end.to_owned(), "a/b"),
        (format!("release{end}.example.com"), "not installed"),
        (
            "connect-injector.consul.hashicorp.com".to_owned(),
            "not installed",
        ),
    ];
    for (name, expected) in table {
        let known = cluster(&[(&[], &[(&name, "a/b")])]);
        assert_eq!(found(&consul, None, Some(&known)), expected, "{name}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn an_instance_is_found_by_what_carries_it() {
    let istio = profile("- preset: istio\n");
    let known = cluster(&[
        (
            &[("istio.io/rev", "default")],
            &[("namespace.istio.io", "istio-system/istiod")],
        ),
        (
            &[("istio.io/rev", "1-30")],
            &[("rev.istio.io", "mesh/istiod-1-30")],
        ),
        (
            &[("istio.io/rev", "canary")],
            &[("rev.istio.io", "mesh/istiod-canary")],
        ),
        // A tag's configuration also names the revision that the tag points to.
        (
            &[("istio.io/tag", "canary"), ("istio.io/rev", "1-31")],
            &[("rev.istio.io", "mesh/istiod-1-31")],
        ),
        (
            &[("istio.io/tag", "prod"), ("istio.io/rev", "1-30")],
            &[
                ("rev.istio.io", "mesh/istiod-1-30"),
                ("object.istio.io", "mesh/istiod-1-30"),
            ],
        ),
        (
            &[("istio.io/rev", "remote")],
            &[("rev.istio.io", "https://mesh.example.com/inject")],
        ),
        // Without an entry it injects nothing.
        (&[("istio.io/rev", "gone")], &[]),
        (
            &[("istio.io/rev", "odd")],
            &[("a", "istio-system/istiod"), ("b", "x/y")],
        ),
        (
            &[("istio.io/rev", "both")],
            &[
                ("a", "istio-system/istiod"),
                ("b", "istio-system/istiod-both"),
            ],
        ),
        (&[], &[("linkerd-proxy-injector.linkerd.io", "linkerd/x")]),
    ]);
    let table = [
        ("default", "istio-system/istiod"),
        ("1-30", "mesh/istiod-1-30"),
        ("canary", "mesh/istiod-1-31"),
        ("prod", "mesh/istiod-1-30"),
        ("1-31", "no such instance"),
        ("stable", "no such instance"),
        ("gone", "no such instance"),
        ("", "no such instance"),
        ("remote", "istio-system/istiod-remote"),
        ("odd", "istio-system/istiod"),
        // That of the instance before that of the profile: another istiod does not count.
        ("both", "istio-system/istiod-both"),
    ];
    for (instance, expected) in table {
        assert_eq!(
            found(&istio, Some(instance), Some(&known)),
            expected,
            "{instance}"
        );
    }
    let carried = instances(istio.instances.as_ref().unwrap(), Some(&known));
    let expected = [
        "1-30", "both", "canary", "default", "gone", "odd", "prod", "remote",
    ];
    assert_eq!(carried, expected);
}

#[test]
fn where_nothing_is_known_the_usual_name_counts() {
    let istio = profile("- preset: istio\n");
    let (none, foreign) = (cluster(&[]), cluster(&[(&[], &[("x", "a/b")])]));
    let found = |instance, known| found(&istio, Some(instance), known);
    assert_eq!(found("default", None), "istio-system/istiod");
    assert_eq!(found("1-30", None), "istio-system/istiod-1-30");
    for known in [&none, &foreign] {
        assert_eq!(found("default", Some(known)), "not installed");
    }
}
