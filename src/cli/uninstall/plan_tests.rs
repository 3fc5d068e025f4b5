use super::*;

#[test]
fn webhooks_go_first_and_the_owner_last() {
    let mut ids = well_known();
    ids.reverse();
    ids.sort();
    let kinds: Vec<Kind> = ids.iter().map(|id| id.kind).collect();
    assert!(kinds[0].is_webhooks() && kinds[2].is_webhooks() && !kinds[3].is_webhooks());
    assert_eq!(kinds.last(), Some(&Kind::ClusterRole));
    let position = |kind| kinds.iter().position(|one| *one == kind).unwrap();
    assert!(position(Kind::ValidatingPolicyBinding) < position(Kind::ValidatingPolicy));
    assert!(position(Kind::MutatingPolicyBinding) < position(Kind::MutatingPolicy));
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    pairs.iter().map(own).collect()
}

#[test]
fn only_our_labels_go() {
    let ours = "meshgate.io/requires.old";
    assert_eq!(
        unlabel(&map(&[("a", ""), (ours, "")])),
        Some(json!({"metadata": {"labels": {ours: null}}}))
    );
    assert_eq!(unlabel(&map(&[("meshgate.io/other", "")])), None);
}

fn installed(objects: &[(usize, &str, &str)], annotations: &[(&str, &str)]) -> Installed {
    let mut installed = Installed::default();
    for (kind, namespace, name) in objects {
        let object = ObjectRef {
            kind: INSTALLED[*kind],
            namespace: (*namespace).to_owned(),
            name: (*name).to_owned(),
        };
        installed.add(object, &map(annotations));
    }
    installed
}

#[test]
fn the_command_is_that_of_the_tool_that_installed_it() {
    let objects = [
        (0, "system", "meshgate"),
        (0, "system", "meshgate-control"),
        (1, "system", "meshgate"),
        (10, "default", "meshgate-break-glass"),
        (12, "", "meshgate-serve"),
        (12, "", OWNER),
        (14, "", "system"),
    ];
    let release = [(RELEASE[0], "mg"), (RELEASE[1], "system")];
    let by_helm = installed(&objects, &release);
    assert_eq!(by_helm.objects.len(), 6, "without the owner");
    assert_eq!(by_helm.commands(), ["helm uninstall mg --namespace system"]);
    let by_kubectl = installed(&objects, &[]);
    assert_eq!(
        by_kubectl.commands(),
        [
            "kubectl delete -n system deployments.apps,services -l app.kubernetes.io/part-of=meshgate",
            "kubectl delete -n default roles.rbac.authorization.k8s.io -l app.kubernetes.io/part-of=meshgate",
            "kubectl delete clusterroles.rbac.authorization.k8s.io,namespaces -l app.kubernetes.io/part-of=meshgate",
        ]
    );
    assert!(installed(&[], &[]).commands().is_empty());
}
