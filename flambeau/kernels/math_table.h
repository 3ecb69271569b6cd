// Tables that fill one or two registers, from which a permutation takes one entry per lane: exact
// or nearly exact points of the elementary functions, where polynomials begin. For AVX-512 alone.
#pragma once
#include "flambeau/kernels/math_base.h"

#if defined(__AVX512F__)
namespace flambeau::FL_ISA {

// 2^(k/16), and what rounding took from it as a part of the whole: they fill one or two registers,
// which serve as a table.
template <class T>
inline constexpr T kSixteenths[16] = {};
template <class T>
inline constexpr T kSixteenthsLost[16] = {};
template <>
alignas(64) inline constexpr double kSixteenths<double>[16] = {0x1p+0,
                                                               0x1.0b5586cf9890fp+0,
                                                               0x1.172b83c7d517bp+0,
                                                               0x1.2387a6e756238p+0,
                                                               0x1.306fe0a31b715p+0,
                                                               0x1.3dea64c123422p+0,
                                                               0x1.4bfdad5362a27p+0,
                                                               0x1.5ab07dd485429p+0,
                                                               0x1.6a09e667f3bcdp+0,
                                                               0x1.7a11473eb0187p+0,
                                                               0x1.8ace5422aa0dbp+0,
                                                               0x1.9c49182a3f09p+0,
                                                               0x1.ae89f995ad3adp+0,
                                                               0x1.c199bdd85529cp+0,
                                                               0x1.d5818dcfba487p+0,
                                                               0x1.ea4afa2a490dap+0};
template <>
alignas(64) inline constexpr double kSixteenthsLost<double>[16] = {0,
                                                                   0x1.79aa65d837b6cp-54,
                                                                   -0x1.01b15eaa59348p-55,
                                                                   0x1.68efde3a8a893p-54,
                                                                   0x1.34d754db0abb6p-55,
                                                                   0x1.59f48a72a4c6cp-55,
                                                                   0x1.690cebb7aafbp-56,
                                                                   0x1.063e1e21c5409p-54,
                                                                   -0x1.3b3efbf5e2229p-54,
                                                                   -0x1.b32dcb94da51dp-56,
                                                                   0x1.db72fc1f0eab4p-55,
                                                                   0x1.1affc2b91ce27p-56,
                                                                   0x1.c1a7792cb3386p-55,
                                                                   0x1.36eae30af0cb3p-56,
                                                                   0x1.4a385a63d07a7p-56,
                                                                   -0x1.ff7128fd391f1p-55};
template <>
alignas(64) inline constexpr float kSixteenths<float>[16] = {
    0x1p+0f,        0x1.0b5586p+0f, 0x1.172b84p+0f, 0x1.2387a6p+0f, 0x1.306fe0p+0f, 0x1.3dea64p+0f,
    0x1.4bfdaep+0f, 0x1.5ab07ep+0f, 0x1.6a09e6p+0f, 0x1.7a1148p+0f, 0x1.8ace54p+0f, 0x1.9c4918p+0f,
    0x1.ae89fap+0f, 0x1.c199bep+0f, 0x1.d5818ep+0f, 0x1.ea4afap+0f};
template <>
alignas(64) inline constexpr float kSixteenthsLost<float>[16] = {0,
                                                                 0x1.8d96d2p-25f,
                                                                 -0x1.9c0c22p-27f,
                                                                 0x1.964902p-25f,
                                                                 0x1.125002p-25f,
                                                                 0x1.370be4p-25f,
                                                                 -0x1.0a3552p-25f,
                                                                 -0x1.00d8acp-27f,
                                                                 0x1.26055cp-26f,
                                                                 -0x1.05cb44p-25f,
                                                                 0x1.67a1cap-28f,
                                                                 0x1.a3b5e4p-28f,
                                                                 -0x1.f9c306p-27f,
                                                                 -0x1.6961b4p-28f,
                                                                 -0x1.a5217cp-28f,
                                                                 0x1.61428ep-28f};

// The entry that the last four bits of t name.
template <class T>
inline Vec<T> look_up(const T (&table)[16], Vec<T> t) {
  if constexpr (kIsSingle<T>)
    return Raw<T>(_mm512_permutexvar_ps((__m512i)t.v, _mm512_load_ps(table)));
  else
    return Raw<T>(
        _mm512_permutex2var_pd(_mm512_load_pd(table), (__m512i)t.v, _mm512_load_pd(table + 8)));
}

// The same of 32 entries.
inline Vec<float> look_up(const float (&table)[32], Vec<int32_t> index) {
  return Raw<float>(
      _mm512_permutex2var_ps(_mm512_load_ps(table), (__m512i)index.v, _mm512_load_ps(table + 16)));
}

// tanh in pieces, four for each power of two from 2^-4 to 2^4: where each polynomial has its
// origin, and its coefficients from the constant on. The first piece begins at zero.
inline constexpr float kTanhFirst = 0x1p-4f;
alignas(64) inline constexpr float kTanhPieces[7][32] = {
    {0,
     0x1.5ffee6p-4f,
     0x1.9ffde6p-4f,
     0x1.e001e8p-4f,
     0x1.2000dep-3f,
     0x1.5ffecep-3f,
     0x1.9fff9ap-3f,
     0x1.dfff3p-3f,
     0x1.1ffe3ap-2f,
     0x1.600068p-2f,
     0x1.9ffe82p-2f,
     0x1.e000eap-2f,
     0x1.1ffeb2p-1f,
     0x1.5ffe5ap-1f,
     0x1.a00154p-1f,
     0x1.dfffbp-1f,
     0x1.1ffeb6p+0f,
     0x1.5fffdap+0f,
     0x1.9fff1p+0f,
     0x1.e00076p+0f,
     0x1.1ffe24p+1f,
     0x1.60023p+1f,
     0x1.a0006ep+1f,
     0x1.e001ecp+1f,
     0x1.1ffee2p+2f,
     0x1.600258p+2f,
     0x1.9ffda8p+2f,
     0x1.e00258p+2f,
     0x1.1ffda8p+3f,
     0x1.600258p+3f,
     0x1.a00258p+3f,
     0x1.e00258p+3f},
    {0,
     0x1.5f21bap-4f,
     0x1.9e9142p-4f,
     0x1.ddd274p-4f,
     0x1.1e1eaap-3f,
     0x1.5c91dep-3f,
     0x1.9a5ebap-3f,
     0x1.d76598p-3f,
     0x1.18a1f6p-2f,
     0x1.52c322p-2f,
     0x1.8a869cp-2f,
     0x1.bfaf28p-2f,
     0x1.050778p-1f,
     0x1.3156dp-1f,
     0x1.5789bap-1f,
     0x1.77d814p-1f,
     0x1.9e5bd2p-1f,
     0x1.c27894p-1f,
     0x1.d9c6b6p-1f,
     0x1.e878b4p-1f,
     0x1.f4bf84p-1f,
     0x1.fbd52ep-1f,
     0x1.fe767cp-1f,
     0x1.ff6f1cp-1f,
     0x1.ffdfa6p-1f,
     0x1.fffbap-1f,
     0x1.ffff68p-1f,
     0x1.ffffecp-1f,
     0x1.fffffep-1f,
     0x1p+0f,
     0x1p+0f,
     0x1p+0f},
    {1.0f,
     0.992651105f,
     0.989755988f,
     0.986391425f,
     0.980481982f,
     0.971031904f,
     0.959849477f,
     0.947019815f,
     0.924893677f,
     0.890556455f,
     0.851559997f,
     0.808863521f,
     0.740080893f,
     0.644348264f,
     0.549795687f,
     0.461140633f,
     0.345042765f,
     0.22590588f,
     0.143738165f,
     0.0897964388f,
     0.0434697382f,
     0.016212143f,
     0.00599556044f,
     0.00220963429f,
     0.000493598869f,
     6.67874483e-05f,
     9.04412627e-06f,
     1.22329493e-06f,
     6.1079902e-08f,
     1.11746834e-09f,
     2.04671471e-11f,
     3.74868864e-13f},
    {3.00059675e-08f,  -0.0850955397f,   -0.100175925f,    -0.115068264f,    -0.136980116f,
     -0.165269718f,    -0.192330778f,    -0.217979565f,    -0.253472f,       -0.294616073f,
     -0.328088254f,    -0.353628308f,    -0.37730974f,     -0.384266973f,    -0.368897915f,
     -0.338509798f,    -0.279243082f,    -0.198759064f,    -0.133007705f,    -0.0856699869f,
     -0.0425132215f,   -0.0160792675f,   -0.00597714866f,  -0.00220703031f,  -0.000492861087f,
     -6.67012137e-05f, -9.03270666e-06f, -1.22175379e-06f, -5.96546954e-08f, -1.09136011e-09f,
     -1.99889584e-11f, -3.66110516e-13f},
    {-0.333336771f,   -0.323588848f,   -0.319779575f,   -0.315373778f,   -0.307690263f,
     -0.295548379f,   -0.28141135f,    -0.265499979f,   -0.238832518f,   -0.199386522f,
     -0.157447785f,   -0.115017854f,   -0.0543329716f,  0.0143804057f,   0.0642548874f,
     0.0947763026f,   0.11097464f,     0.0995716974f,   0.07516554f,     0.0518012047f,
     0.0270906724f,   0.0105448067f,   0.00396083063f,  0.00146809453f,  0.000328391005f,
     4.44603429e-05f, 6.02134605e-06f, 8.14424084e-07f, 3.97184614e-08f, 7.26444849e-10f,
     1.33053022e-11f, 2.43695119e-13f},
    {0.000116231822f,  0.0561023429f,    0.0657546446f,    0.0751427412f,    0.0886301026f,
     0.105373174f,     0.120477036f,     0.133748159f,     0.14984642f,      0.16406928f,
     0.169934064f,     0.168084279f,     0.153267264f,     0.119449772f,     0.0798919722f,
     0.0433564559f,    0.00367257185f,   -0.0211135224f,   -0.0251282528f,   -0.0208498444f,
     -0.0123865819f,   -0.00514681684f,  -0.00197781133f,  -0.000739144569f, -0.000171971958f,
     -2.33097071e-05f, -3.15726243e-06f, -4.27060627e-07f, -2.4408557e-08f,  -4.465531e-10f,
     -8.17890547e-12f, -1.49801883e-13f},
    {0.13201803f,     0.12510635f,     0.121926375f,    0.118273459f,    0.11194925f,
     0.102140479f,    0.0909762383f,   0.0787448213f,   0.0590544492f,   0.0319556668f,
     0.00593150686f,  -0.0171541721f,  -0.0434562713f,  -0.0615501143f,  -0.0626573786f,
     -0.0530553795f,  -0.0320456177f,  -0.00952713657f, 0.00138685782f,  0.00459767086f,
     0.00397561304f,  0.00191597908f,  0.000771185267f, 0.000292940298f, 6.8589361e-05f,
     9.31897557e-06f, 1.26185296e-06f, 1.70785569e-07f, 9.73769509e-09f, 1.78353193e-10f,
     3.26665279e-12f, 5.98308295e-14f}};

}  // namespace flambeau::FL_ISA
#endif
