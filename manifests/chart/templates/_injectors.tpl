{{/*
Every injector is told to leave our pods alone: if one of them had to be asked about us, each could
wait for the other. A test holds these to all presets. Ambient's label is here as well, since its
pods depend on a node agent.
*/}}
{{- define "meshgate.optOut.labels" -}}
istio.io/dataplane-mode: none
kuma.io/sidecar-injection: disabled
sidecar.istio.io/inject: "false"
{{- end }}

{{- define "meshgate.optOut.annotations" -}}
consul.hashicorp.com/connect-inject: "false"
dapr.io/enabled: "false"
linkerd.io/inject: disabled
sidecar.istio.io/inject: "false"
sidecar.opentelemetry.io/inject: "false"
vault.hashicorp.com/agent-inject: "false"
{{- end }}

{{/* The same for a namespace, with the keys that count there. */}}
{{- define "meshgate.optOut.namespaceLabels" -}}
config.linkerd.io/admission-webhooks: disabled
istio-injection: disabled
istio.io/dataplane-mode: none
kuma.io/sidecar-injection: disabled
{{- end }}

{{- define "meshgate.optOut.namespaceAnnotations" -}}
linkerd.io/inject: disabled
sidecar.opentelemetry.io/inject: "false"
{{- end }}
