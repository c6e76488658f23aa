export function Logo({ big }: { big?: boolean }) {
  return (
    <span className={`logo ${big ? 'big' : ''}`} aria-hidden="true">
      <svg viewBox="0 0 24 24" fill="none" stroke="currentColor" strokeWidth="2.6" strokeLinecap="round">
        <path d="M4.5 12h14.8a7.4 7.4 0 1 0-3.1 6" />
        <circle cx="19.6" cy="19.2" r="1.6" fill="currentColor" stroke="none" />
      </svg>
    </span>
  );
}
