export default function Palette({ onClose: _close }: { onClose: () => void }) {
  return null;
}
