{{/* An image of Harmony: include "harmony.image" (list "sidecar" .) */}}
{{- define "harmony.image" -}}
{{- $name := index . 0 }}{{ $root := index . 1 -}}
{{ $root.Values.image.registry }}/{{ $name }}:{{ $root.Values.image.tag | default $root.Chart.AppVersion }}
{{- end }}

{{/* Labels of an object: include "harmony.labels" (list "operator" .) */}}
{{- define "harmony.labels" -}}
{{- $component := index . 0 }}{{ $root := index . 1 -}}
{{ include "harmony.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: harmony
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version }}
{{- end }}

{{- define "harmony.selector" -}}
{{- $component := index . 0 }}{{ $root := index . 1 -}}
app.kubernetes.io/name: harmony
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ $component }}
{{- end }}

{{/* What the restricted Pod Security level asks of a container, and a read-only root. */}}
{{- define "harmony.hardened" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
readOnlyRootFilesystem: true
runAsNonRoot: true
seccompProfile:
  type: RuntimeDefault
{{- end }}
