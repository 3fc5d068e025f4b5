{{/* The injectors that the values say, as entries of a Configuration: a YAML list. */}}
{{- define "meshgate.injectors" -}}
{{- if not .Values.injectors }}
{{- fail "\n\ninjectors: name those that this cluster has, as in --set 'injectors={linkerd,vault}'. To find out which there are: kubectl get mutatingwebhookconfigurations. Presets: consul, dapr, istio, kuma, linkerd, opentelemetry, vault; for others see docs/configure.md.\n" }}
{{- end }}
{{- $injectors := list }}
{{- range .Values.injectors }}
{{- $injectors = append $injectors (kindIs "string" . | ternary (dict "preset" .) .) }}
{{- end }}
{{- toYaml $injectors }}
{{- end }}

{{/* The Configuration that the values say. */}}
{{- define "meshgate.configuration" -}}
apiVersion: meshgate.io/v1alpha1
kind: Configuration
injectors:
{{ include "meshgate.injectors" . }}
{{- with .Values.excludedNamespaces }}
excludedNamespaces:
{{ toYaml . }}
{{- end }}
{{- if not .Values.wake.enabled }}
wake:
  enabled: false
{{- end }}
{{- end }}

{{/*
Of its content, and of the program that reads it: another version may have another preset of the same
name. Of nothing else, so that no other change restarts pods.
*/}}
{{- define "meshgate.configurationHash" -}}
{{ printf "%s\n%s" (include "meshgate.configuration" .) (include "meshgate.image" .) | sha256sum | trunc 10 }}
{{- end }}

{{/* The ConfigMap of a hash: (list . HASH DATA). */}}
{{- define "meshgate.configMap" -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: meshgate-{{ index . 1 }}
  namespace: {{ (index . 0).Release.Namespace }}
  labels:
    {{- include "meshgate.labels" (index . 0) | nindent 4 }}
    app.kubernetes.io/component: configuration
    meshgate.io/configuration: {{ index . 1 | quote }}
  annotations:
    # Argo CD: the one before goes when nothing runs with it any more.
    argocd.argoproj.io/sync-options: PruneLast=true
# Named after its content, so a change makes another one.
immutable: true
data:
  {{- toYaml (index . 2) | nindent 2 }}
{{- end }}
