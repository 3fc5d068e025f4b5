//! What a suspension does not allow, and what disarms without one.

use super::*;

/// Every preset, so that the guard has most to compare.
const ALL: &str = "apiVersion: meshgate.io/v1alpha1
kind: Configuration
injectors:
- preset: consul
- preset: dapr
- preset: istio
- preset: kuma
- preset: linkerd
- preset: opentelemetry
- preset: vault
";

fn condition(name: &str) -> Value {
    json!({"name": name, "expression": "false"})
}

/// A member of the group that may break the glass, with `kubectl`.
#[tokio::test]
async fn the_right_to_suspend_is_no_right_to_more() {
    let lab = lab(&[], &[]).await;
    let meshgate = Meshgate::start(&lab, ALL).await;
    let orders = lab.namespace("orders", &[], &[(INJECT, "enabled")]).await;
    let bare = pod("bare");
    is_refused(&lab, &orders, &bare, "requires linkerd").await;
    lab.allow_alice("meshgate-break-glass", &rights()).await;
    let note = |until: &str| format!("alice: the nodes are gone; until={until}");
    let tried = async |user: User, patch: &Value| lab.patch_as(user, &gate(), patch).await;
    let noted = |text: &str| json!({"op": "add", "path": "/metadata/annotations/meshgate.io~1break-glass", "value": text});
    let soon = note(&in_hours(1).to_string());
    let rules = json!([{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}]);
    for (path, value) in [
        (
            "clientConfig",
            json!({"url": "https://evil.example.test/mutate/pods"}),
        ),
        ("rules", rules),
        ("failurePolicy", json!("Ignore")),
        ("timeoutSeconds", json!(1)),
        ("objectSelector", json!({"matchLabels": {"a": "b"}})),
        // These would outlive the note.
        ("matchConditions/-", condition("theirs")),
        ("matchConditions/0", condition("theirs")),
        ("matchConditions/0/expression", json!("false")),
    ] {
        let change = json!({"op": "add", "path": format!("/webhooks/0/{path}"), "value": value});
        for patch in [json!([change]), json!([noted(&soon), change])] {
            let refused = tried(User::Alice, &patch).await;
            assert!(
                refused.err.contains(" would call something ")
                    || refused.err.contains(" would let pods start "),
                "{path}: {refused:?}"
            );
        }
    }
    // Nor with the one that it may add; that one alone it may, and `break-glass` does, in all entries.
    let suspend = ("matchConditions/-", condition("break-glass"));
    let add =
        |(path, value)| json!({"op": "add", "path": format!("/webhooks/0/{path}"), "value": value});
    let both = json!([
        noted(&soon),
        add(suspend.clone()),
        add(("matchConditions/0", condition("theirs")))
    ]);
    let refused = tried(User::Alice, &both).await;
    assert!(
        refused.err.contains(" would let pods start "),
        "{refused:?}"
    );
    tried(User::Alice, &json!([noted(&soon), add(suspend)]))
        .await
        .ok();
    for close in [
        &["--close"][..],
        &["--for=15m", "--reason=x", "--yes"],
        &["--close"],
    ] {
        lab.tool(User::Alice, &[&["break-glass"], close].concat())
            .await
            .ok();
    }
    let forever = json!([noted(&note("9999-01-01T00:00:00Z"))]);
    let refused = tried(User::Alice, &forever).await;
    assert!(
        refused.err.contains("an end within 24 hours"),
        "{refused:?}"
    );
    is_refused(&lab, &orders, &bare, "requires linkerd").await;

    // Where nothing guards it, meshgate does not believe the note either, and takes it off.
    let unguard = [
        "delete",
        "validatingadmissionpolicybinding",
        "guard.meshgate.io",
    ];
    meshgate.order("pause").await;
    lab.kubectl(&unguard).await.ok();
    within(SECONDS, "the note is written", async || {
        (tried(User::Alice, &forever).await.code == Some(0)).then_some(())
    })
    .await;
    meshgate.order("resume").await;
    within(SECONDS, "it is told", async || {
        let events = events(&lab).await;
        let mut events = events.iter();
        events
            .any(|one| one.contains("no end within 24 hours"))
            .then_some(())
    })
    .await;
    is_refused(&lab, &orders, &bare, "requires linkerd").await;
    assert_eq!(
        content(&lab, &gate()).await["metadata"]["annotations"][GLASS],
        Value::Null
    );
}

/// A condition of another client is no suspension, and disarms what it narrows.
#[tokio::test]
async fn a_foreign_condition_disarms_at_once_and_is_told() {
    let lab = lab(&[], &[]).await;
    let meshgate = Meshgate::start(&lab, CONFIG).await;
    let narrow = json!([{"op": "add", "path": "/webhooks/0/matchConditions/-",
        "value": {"name": "theirs", "expression": "false"}}]);
    lab.patch_as(User::Writer, &gate(), &narrow).await.ok();
    within(SECONDS, "it is not armed", async || {
        let metrics = meshgate.metrics();
        let is_off = metrics.contains("meshgate_registration_armed 0");
        (is_off && metrics.contains("meshgate_registration_narrowed 1")).then_some(())
    })
    .await;
    let all = entries();
    let rest = all - 1;
    let said = format!(
        "armed: {rest} of {all} entries; asked about fewer pods than wanted: linkerd-2.gate.meshgate.io (another \
         client added the matchCondition theirs)"
    );
    // The log is written a moment after the metric.
    within(SECONDS, &said, async || {
        meshgate.log().contains(&said).then_some(())
    })
    .await;
    let status = lab.tool(User::Admin, &["status"]).await;
    let expected = format!(
        "NOT ARMED: {rest} of {all} entries armed (another client added the matchCondition theirs to \
         linkerd-2.gate.meshgate.io)"
    );
    assert!(status.out.contains(&expected), "{status:?}");
    let widen = json!([{"op": "remove", "path": "/webhooks/0/matchConditions/4"}]);
    lab.patch_as(User::Writer, &gate(), &widen).await.ok();
    meshgate.armed().await;
    // Terms that AKS gives to every webhook.
    let term = json!({"key": "control-plane", "operator": "NotIn", "values": ["true"]});
    let aks = json!([{"op": "add", "path": "/webhooks/0/namespaceSelector/matchExpressions/-", "value": term}]);
    lab.patch_as(User::Writer, &gate(), &aks).await.ok();
    let open = json!([{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]);
    lab.patch_as(User::Writer, &gate(), &open).await.ok();
    within(SECONDS, "it is armed, with that term", async || {
        let gate = lab.get(&gate()).await?;
        let entry = &gate["webhooks"][0];
        let is_kept = entry["namespaceSelector"]
            .to_string()
            .contains("control-plane");
        (entry["failurePolicy"] == "Fail" && is_kept).then_some(())
    })
    .await;
    meshgate.armed().await;
}
